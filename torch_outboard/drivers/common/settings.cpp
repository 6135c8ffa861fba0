#include "settings.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "failure.h"

namespace drivers {

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
  if (text.find('-') == std::string::npos && *end == '\0' && errno == 0 && number >= smallest &&
      number <= largest) {
    return number;
  }
  fail(OB_INVALID_ARGUMENT, "%s=%.100s is not a whole number from %" PRIu64 " to %" PRIu64 ".",
       variable, text.c_str(), smallest, largest);
}

// This library lies below its package, others in packages beside it; it may also lie in a source
// tree, or somewhere else, and be told by libraries of the process where packages are.
std::string file_of_package(const std::string& name) {
  std::vector<std::string> libraries;
  Dl_info own = {};
  if (dladdr(reinterpret_cast<void*>(&file_of_package), &own) != 0) {
    libraries.emplace_back(own.dli_fname);
  }
  const auto add = [](dl_phdr_info* info, size_t, void* found) {
    static_cast<std::vector<std::string>*>(found)->emplace_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(add, &libraries);
  for (const std::string& library : libraries) {
    for (const char* below : {"/torch_outboard/", "/site-packages/", "/dist-packages/"}) {
      const size_t start = library.find(below);
      if (start == std::string::npos) continue;
      const size_t end = below[1] == 't' ? start + 1 : start + std::strlen(below);
      std::string file = library.substr(0, end) + name;
      if (access(file.c_str(), R_OK) == 0) return file;
    }
  }
  return "";
}

}  // namespace drivers
