// Compiling and linking programs, by a compiler in a process of its own.
#include "riscv.h"
namespace riscv {
std::string compile(const std::string& source, const std::string& options) {
  fail(OB_UNSUPPORTED, "not yet");
}
}
