// What compiles and links programs: any clang that knows RISC-V, in a process of its own.
#include <compiler/compiler.h>

#include "riscv.h"

namespace riscv {
namespace {

// Position-independent, since programs lie where there is room, and without a library of C.
constexpr const char* kFlags =
    "--target=riscv64-unknown-elf -march=rv64gc -mabi=lp64d -mno-relax -O3 -fPIC "
    "-fvisibility=hidden -ffreestanding -fno-math-errno";

// Constant after load_compiler. The one for this machine says which clang and headers there are.
native_compiler g_native;
compiler g_compiler;
std::string& g_link = *new std::string;
std::string& g_key = *new std::string;

void check(ob_status status, const compiler_error& error) {
  if (status != OB_OK) fail(status, "%s", error.text);
}

}  // namespace

void load_compiler() {
  compiler_error error;
  check(find_native_compiler(&g_native, &error), error);
  g_link = g_native.found.link;
  g_link += g_link.find(" ld.lld ") != std::string::npos
                ? " -Bsymbolic --no-undefined --gc-sections"
                : " --target=riscv64-unknown-elf -fuse-ld=lld "
                  "-Wl,-shared,-Bsymbolic,--no-undefined,--gc-sections";
  g_compiler = g_native.compiler;
  g_compiler.flags = kFlags;
  g_compiler.link = g_link.c_str();
  g_compiler.advice = "OUTBOARD_CLANG names another clang that knows RISC-V";
  const std::string key = g_native.version + g_link + kFlags;
  g_key = drivers::format("%016zx", std::hash<std::string>()(key));
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
