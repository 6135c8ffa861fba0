// The clang of this machine and its flags, for its own processors and others; loading of results.
// Its settings are OUTBOARD_CLANG and those that begin with it.
#include <common/failures.h>
#include <common/packages.h>
#include <common/sealed_binary.h>
#include <common/settings.h>
#include <common/system.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler.h"

namespace compiler {

using drivers::fail;

namespace {

constexpr int kOldestClang = 14;

// ---- The compiler of this machine

// The number in "clang-22", 0 in "clang", -1 in others.
int number_of(const std::string& name) {
  if (name == "clang") return 0;
  if (name.rfind("clang-", 0) != 0 || name.size() == 6) return -1;
  return name.find_first_not_of("0123456789", 6) == std::string::npos ? std::atoi(&name[6]) : -1;
}

// clang-NUMBER of the greatest number, else clang; "" if PATH has none.
std::string clang_on_path() {
  std::string best;
  int best_number = -1;
  std::istringstream folders(drivers::text_setting("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      const int number = number_of(entry.path().filename());
      if (number <= best_number || access(entry.path().c_str(), X_OK) != 0) continue;
      best_number = number;
      best = entry.path();
    }
  }
  return best;
}

std::string find_command() {
  std::string command = drivers::text_setting("OUTBOARD_CLANG");
  if (command == "none") fail(OB_UNSUPPORTED, "OUTBOARD_CLANG=none switches the compiler off.");
  if (!command.empty()) return command;
  const std::string zig = drivers::file_of_package("ziglang/zig");
  command = zig.empty() ? clang_on_path() : "'" + zig + "' clang";
  if (!command.empty()) return command;
  fail(OB_UNSUPPORTED,
       "There is no clang: install the package ziglang, or a clang on PATH, or name one by "
       "OUTBOARD_CLANG.");
}

// zig has a linker, other compilers call the system's.
std::string linker_of(const std::string& command) {
  constexpr std::string_view kClang = " clang";
  if (command.ends_with(kClang)) {
    return command.substr(0, command.size() - kClang.size()) + " ld.lld -shared -s";
  }
  const char* quote = access(command.c_str(), X_OK) == 0 ? "'" : "";
  return quote + command + quote + " -shared -nostdlib -Wl,-s";
}

std::string find_dialect() {
  std::string folder = drivers::text_setting("OUTBOARD_CLANG_DIALECT");
  if (folder.empty()) {
    const std::string header = drivers::file_of_package("torch_outboard/dialects/clang/opencl.h");
    folder = header.substr(0, header.rfind('/'));
  }
  if (access((folder + "/opencl.h").c_str(), R_OK) == 0) return folder;
  fail(OB_UNSUPPORTED,
       "The headers for clang are not in %s: install torch_outboard again, or name their folder by "
       "OUTBOARD_CLANG_DIALECT.",
       folder.empty() ? "the package torch_outboard" : folder.c_str());
}

// ---- Flags

uint32_t vector_width() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return 16;
  }
  if (__builtin_cpu_supports("avx2")) return 8;
#endif
  return 4;
}

// Vectors in kernels have the announced width, so the compiler may use 512 bits; by default it uses
// fewer on many processors.
std::string processor_flags() {
#if defined(__x86_64__)
  return vector_width() == 16 ? "-march=native -mprefer-vector-width=512" : "-march=native";
#elif defined(__aarch64__)
  return "-mcpu=native";
#elif defined(__riscv)
  return "-march=rv64gc -mabi=lp64d";
#else
  return "";
#endif
}

// ---- The key

// The lines of /proc/cpuinfo that identify the first processor.
std::string processor() {
  constexpr const char* kNames[] = {"vendor_id",       "cpu family", "model",    "stepping",
                                    "flags",           "Features",   "CPU part", "CPU variant",
                                    "CPU implementer", "isa",        "uarch"};
  std::ifstream file("/proc/cpuinfo");
  std::string found;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const auto begins = [&](const char* name) { return line.rfind(name, 0) == 0; };
    if (std::any_of(std::begin(kNames), std::end(kNames), begins)) found += line + "\n";
  }
  return found;
}

uint64_t hash_text(const std::string& text) {
  return hash_bytes(HASH_START, text.data(), text.size());
}

std::string key_of(const NativeCompiler& native) {
  uint64_t headers = 0;  // files come in any order
  for (const auto& entry : std::filesystem::recursive_directory_iterator(native.dialect)) {
    if (!entry.is_regular_file()) continue;
    headers += hash_text(entry.path().string() + "\n" + read_content(entry.path()));
  }
  const std::string all = std::to_string(headers) + "\n" + processor() + native.version + "\n" +
                          native.command + "\n" + native.flags;
  return drivers::format("%.40s %016llx", native.version.c_str(),
                         static_cast<unsigned long long>(hash_text(all)));
}

// ---- Loading

// A different path of a descriptor at each call, because the loader takes libraries of one path for
// the same one, and descriptors are reused: "//" and "/." encode the bits of the time.
std::string path_of(int descriptor) {
  std::string path = "/proc";
  for (uint64_t time = nanoseconds(); time != 0; time >>= 1) path += (time & 1) != 0 ? "//" : "/.";
  return path + "/self/fd/" + std::to_string(descriptor);
}

void* open_library(std::string_view content) {
  // A file in memory.
  const int file = memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0) {
    fail(OB_ERROR, "A program cannot be loaded, since no file can be created for it: %s.",
         std::strerror(errno));
  }
  const std::string path = path_of(file);
  void* library = nullptr;
  std::string problem;
  try {
    write_content(path, content);
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) problem = dlerror();
  } catch (const drivers::Failure& failure) {
    problem = failure.message;
  }
  close(file);
  if (library == nullptr) fail(OB_ERROR, "A program cannot be loaded: %s", problem.c_str());
  return library;
}

// The compiler of this library, found by the first call that succeeds.
const NativeCompiler& chosen(const char* target) {
  static const auto& found =
      *new NativeCompiler(target == nullptr ? find_native() : find_for_target(target));
  return found;
}

}  // namespace

NativeCompiler find_native() {
  NativeCompiler found;
  found.command = find_command();
  found.flags =
      processor_flags() + " -O3 -fPIC -ffreestanding -fno-math-errno -DOB_DIALECT_THREADS";
  found.link = linker_of(found.command);
  found.seconds = drivers::number_setting("OUTBOARD_CLANG_SECONDS", 1, 86400, 300);
  found.dialect = find_dialect();
  found.advice = "OUTBOARD_CLANG names another clang, or none";
  found.version = version_of(found, kOldestClang);
  found.key = key_of(found);
  return found;
}

NativeCompiler find_for_target(const std::string& target) {
  NativeCompiler found = find_native();
  found.flags = target + " -O3 -fPIC -fvisibility=hidden -ffreestanding -fno-math-errno";
  found.link +=
      found.link.find(" ld.lld ") != std::string::npos
          ? " -Bsymbolic --no-undefined --gc-sections"
          : " " + target + " -fuse-ld=lld -Wl,-shared,-Bsymbolic,--no-undefined,--gc-sections";
  found.advice = "OUTBOARD_CLANG names another clang, which knows " + target;
  found.key = key_of(found);
  return found;
}

}  // namespace compiler

ob_status find_target_compiler(const char* target, native_compiler* found) try {
  const compiler::NativeCompiler& chosen = compiler::chosen(target);
  const uint32_t width = target == nullptr ? compiler::vector_width() : 0;
  *found = {chosen.command.c_str(), chosen.flags.c_str(), chosen.version.c_str(),
            chosen.key.c_str(), width};
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}

ob_status compile_library(const char* source, const char* options, void** data,
                          uint64_t* bytes) try {
  const std::string sealed =
      drivers::sealed(compiler::compile_program(compiler::chosen(nullptr), source, options));
  *data = std::malloc(sealed.size());
  if (*data == nullptr) throw std::bad_alloc();
  std::memcpy(*data, sealed.data(), sealed.size());
  *bytes = sealed.size();
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}

ob_status load_library(const void* data, uint64_t bytes, void** library) try {
  *library = compiler::open_library(drivers::unsealed(data, bytes));
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}
