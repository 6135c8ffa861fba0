// What compiles and links programs: any clang that knows RISC-V, in a process of its own.
#include <compiler/compiler.h>

#include <cstdio>

#include "riscv.h"

namespace riscv {
namespace {

// Position-independent, since programs lie where there is room; of its own library alone.
constexpr const char* kFlags =
    "--target=riscv64-unknown-elf -march=rv64gc -mabi=lp64d -mno-relax -O3 -fPIC "
    "-fvisibility=hidden -ffreestanding -ffp-contract=fast -Xclang -cl-ext=+all";
constexpr const char* kLinkFlags = " -shared -Bsymbolic --no-undefined --gc-sections -s";

struct Compiler {
  compiler described = {};
  std::string command, link, dialect, key;
};

Compiler& g_compiler = *new Compiler;

// FNV-1a.
uint64_t hash(uint64_t value, const std::string& text) {
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return value;
}

}  // namespace

void load_compiler(const Settings& settings) {
  Compiler& c = g_compiler;
  c.command = settings.clang;
  c.dialect = settings.dialect;
  // `zig clang` comes with `zig ld.lld`; other compilers find their linker.
  const size_t zig = c.command.rfind(" clang");
  c.link = zig != std::string::npos && zig + 6 == c.command.size()
               ? c.command.substr(0, zig) + " ld.lld" + kLinkFlags
               : c.command + " " + kFlags + " -fuse-ld=lld -nostdlib -shared -Wl,-Bsymbolic,-s";
  if (c.dialect.empty()) {
    fail(OB_UNSUPPORTED, "%s", "the headers in dialects/clang of the package torch_outboard are "
         "missing: install it again, or set OUTBOARD_RISCV_DIALECT to their folder");
  }
  c.described = {.command = c.command.c_str(),
                 .flags = kFlags,
                 .link = c.link.c_str(),
                 .dialect = c.dialect.c_str(),
                 .advice = "`pip install ziglang`, or set OUTBOARD_CLANG to a clang that knows "
                           "RISC-V",
                 .oldest = 14,
                 .seconds = 120,
                 .version = {}};
  compiler_error error;
  const ob_status status = probe_compiler(&c.described, &error);
  if (status != OB_OK) fail(status, "%s", error.text);
  const uint64_t key = hash(hash(hash(0xCBF29CE484222325, c.described.version), kFlags), c.link);
  c.key = format("1-%016llx", static_cast<unsigned long long>(key));
}

std::string compiler_version() { return g_compiler.key; }

std::string compile(const char* source, const char* options) {
  compiled_program compiled = {};
  compiler_error error;
  const ob_status status =
      compile_program(&g_compiler.described, source, options, &compiled, &error);
  if (status != OB_OK) fail(status, "%s", error.text);
  std::string file(static_cast<const char*>(compiled.data), compiled.bytes);
  free_compiled(&compiled);
  return file;
}

}  // namespace riscv
