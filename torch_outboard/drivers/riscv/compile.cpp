// What compiles and links programs: any clang that knows RISC-V, in a process of its own.
#include <compiler/compiler.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "riscv.h"

namespace riscv {
namespace {

// Position-independent, since programs lie where there is room, and without a library of C.
constexpr const char* kFlags =
    "--target=riscv64-unknown-elf -march=rv64gc -mabi=lp64d -mno-relax -O3 -fPIC "
    "-fvisibility=hidden -ffreestanding -fno-math-errno";

// Constant after load_compiler.
found_compiler g_found;
std::string& g_link = *new std::string;
std::string& g_key = *new std::string;
compiler g_compiler;

void check(ob_status status, const compiler_error& error) {
  if (status != OB_OK) fail(status, "%s", error.text);
}

}  // namespace

void load_compiler() {
  compiler_error error;
  check(find_compiler(&g_found, &error), error);
  g_link = g_found.link;
  g_link += g_link.find(" ld.lld ") != std::string::npos
                ? " -Bsymbolic --no-undefined --gc-sections"
                : " --target=riscv64-unknown-elf -fuse-ld=lld "
                  "-Wl,-Bsymbolic,--no-undefined,--gc-sections";
  g_compiler = {.command = g_found.command,
                .flags = kFlags,
                .link = g_link.c_str(),
                .dialect = g_found.dialect,
                .advice = "OUTBOARD_CLANG names another clang that knows RISC-V",
                .oldest = 14,
                .seconds = g_found.seconds,
                .version = {}};
  check(probe_compiler(&g_compiler, &error), error);
  std::set<std::string> headers;  // sorted
  for (const auto& entry : std::filesystem::recursive_directory_iterator(g_found.dialect)) {
    if (entry.is_regular_file()) headers.insert(entry.path());
  }
  std::ostringstream key;
  key << "1\n" << g_compiler.version << kFlags << g_link;
  for (const std::string& path : headers) key << std::ifstream(path).rdbuf();
  g_key = drivers::format("%016zx", std::hash<std::string>()(key.str()));
}

std::string compiler_key() { return g_key; }

std::string compile(const char* source, const char* options) {
  compiled_program compiled = {};
  compiler_error error;
  check(compile_program(&g_compiler, source, options, &compiled, &error), error);
  std::string file(static_cast<const char*>(compiled.data), compiled.bytes);
  free_compiled(&compiled);
  return file;
}

}  // namespace riscv
