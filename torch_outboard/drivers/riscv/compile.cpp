// What compiles and links programs: any clang that knows RISC-V, in a process of its own.
#include <compiler/compiler.h>

#include "riscv.h"

namespace riscv {
namespace {

// Position-independent, since programs lie where there is room; of its own library alone.
constexpr const char* kFlags =
    "--target=riscv64-unknown-elf -march=rv64gc -mabi=lp64d -mno-relax -O3 -fPIC "
    "-fvisibility=hidden -ffreestanding -ffp-contract=fast -Xclang -cl-ext=+all";
constexpr const char* kLink = " -shared -Bsymbolic --no-undefined --gc-sections -s";
constexpr const char* kLinkByClang =
    " -fuse-ld=lld -nostdlib -shared -Wl,-Bsymbolic,--no-undefined,--gc-sections,-s";

compiler& g_compiler = *new compiler;
std::string& g_key = *new std::string;

const char* keep(const std::string& text) { return strdup(text.c_str()); }

}  // namespace

void load_compiler() {
  std::string command = drivers::text_setting("OUTBOARD_CLANG");
  if (command.empty()) {
    const std::string zig = drivers::file_of_package("ziglang/zig");
    command = zig.empty() ? "clang" : "'" + zig + "' clang";
  }
  // `zig clang` comes with `zig ld.lld`; other compilers find their linker.
  const size_t zig = command.rfind(" clang");
  const std::string link = zig != std::string::npos && zig + 6 == command.size()
                               ? command.substr(0, zig) + " ld.lld" + kLink
                               : command + " --target=riscv64-unknown-elf" + kLinkByClang;
  std::string dialect = drivers::text_setting("OUTBOARD_RISCV_DIALECT");
  if (dialect.empty()) {
    dialect = drivers::file_of_package("torch_outboard/dialects/clang/opencl.h");
    dialect = dialect.substr(0, dialect.rfind('/') + 1);
  }
  if (dialect.empty()) {
    fail(OB_UNSUPPORTED,
         "the folder torch_outboard/dialects/clang was not found: install torch_outboard again, or "
         "set OUTBOARD_RISCV_DIALECT to it");
  }
  g_compiler = {
      .command = keep(command),
      .flags = kFlags,
      .link = keep(link),
      .dialect = keep(dialect),
      .advice = "`pip install ziglang`, or set OUTBOARD_CLANG to a clang that knows RISC-V",
      .oldest = 14,
      .seconds = 300,
      .version = {}};
  compiler_error error;
  const ob_status status = probe_compiler(&g_compiler, &error);
  if (status != OB_OK) fail(status, "%s", error.text);
  const std::hash<std::string> hash;
  g_key = drivers::format("1-%016zx", hash(g_compiler.version + std::string(kFlags) + link));
}

std::string compiler_key() { return g_key; }

std::string compile(const char* source, const char* options) {
  compiled_program compiled = {};
  compiler_error error;
  const ob_status status = compile_program(&g_compiler, source, options, &compiled, &error);
  if (status != OB_OK) fail(status, "%s", error.text);
  std::string file(static_cast<const char*>(compiled.data), compiled.bytes);
  free_compiled(&compiled);
  return file;
}

}  // namespace riscv
