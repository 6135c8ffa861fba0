// The settings, read once by `initialize`:
//
// - OUTBOARD_RISCV_DEVICES: number of devices, 1 (default) to 16.
// - OUTBOARD_RISCV_MEMORY: bytes of each device; default a quarter of the host's memory, divided
//   equally.
// - OUTBOARD_RISCV_TIME_LIMIT: seconds that one launch may take, 1 to 86400, default 600.
// - OUTBOARD_RISCV_UNICORN: the library libunicorn.so.2 to use; default that of the Python package
//   `unicorn`, then the system's.
// - OUTBOARD_CLANG: the command of a clang that knows RISC-V, beside which lies its linker ld.lld;
//   default that of the Python package `ziglang`, then `clang`.
// - OUTBOARD_RISCV_DIALECT: the folder of opencl.h; default that of this package.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "riscv.h"

namespace riscv {
namespace {

std::string text_setting(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

uint64_t number_setting(const char* variable, uint64_t smallest, uint64_t largest,
                        uint64_t otherwise) {
  const std::string text = text_setting(variable);
  if (text.empty()) return otherwise;
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text.c_str(), &end, 10);
  if (text.find('-') != std::string::npos || *end != '\0' || errno != 0 || number < smallest ||
      number > largest) {
    fail(OB_INVALID_ARGUMENT, "%s=%.100s is not a whole number from %llu to %llu.", variable,
         text.c_str(), static_cast<unsigned long long>(smallest),
         static_cast<unsigned long long>(largest));
  }
  return number;
}

// A file in a folder in which Python packages lie: that of this library, and those that libraries
// of this process come from. The second finds them when this library lies in a source tree.
std::string file_of_package(const std::string& name) {
  std::vector<std::string> folders;
  Dl_info own = {};
  if (dladdr(reinterpret_cast<void*>(&file_of_package), &own) != 0 && own.dli_fname != nullptr) {
    const std::string path = own.dli_fname;
    const size_t package = path.rfind("/torch_outboard/drivers/");
    if (package != std::string::npos) folders.push_back(path.substr(0, package));
  }
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        const std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        for (const char* parent : {"/site-packages/", "/dist-packages/"}) {
          const size_t start = path.find(parent);
          if (start == std::string::npos) continue;
          static_cast<std::vector<std::string>*>(argument)->push_back(
              path.substr(0, start + std::strlen(parent) - 1));
        }
        return 0;
      },
      &folders);
  for (const std::string& folder : folders) {
    std::string path = folder + "/" + name;
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return "";
}

}  // namespace

Settings read_settings() {
  Settings settings;
  settings.devices = static_cast<int32_t>(number_setting("OUTBOARD_RISCV_DEVICES", 1, 16, 1));
  const uint64_t physical = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t share = physical / 4 / static_cast<uint64_t>(settings.devices);
  settings.memory =
      whole_pages(number_setting("OUTBOARD_RISCV_MEMORY", 1, uint64_t{1} << 37, share));
  settings.time_limit = 1000 * number_setting("OUTBOARD_RISCV_TIME_LIMIT", 1, 86400, 600);
  settings.unicorn = text_setting("OUTBOARD_RISCV_UNICORN");
  if (settings.unicorn.empty()) settings.unicorn = file_of_package("unicorn/lib/libunicorn.so.2");
  settings.clang = text_setting("OUTBOARD_CLANG");
  if (settings.clang.empty()) {
    const std::string zig = file_of_package("ziglang/zig");
    settings.clang = zig.empty() ? "clang" : "'" + zig + "' clang";
  }
  settings.dialect = text_setting("OUTBOARD_RISCV_DIALECT");
  if (settings.dialect.empty()) {
    settings.dialect = file_of_package("torch_outboard/dialects/clang/opencl.h");
    settings.dialect = settings.dialect.substr(0, settings.dialect.rfind('/') + 1);
  }
  return settings;
}

}  // namespace riscv
