// Operators made of other operators: a body in the language of TorchScript, as data.
//
// The text goes through PyTorch's own compiler for that language, which knows every operator, their
// overloads and promotions; the graph is then walked here. PyTorch's interpreter would do it as
// well, but turns every exception into a RuntimeError.
#pragma once

#include <ATen/core/stack.h>

#include <memory>
#include <string>

#include "runtime/export.h"

namespace outboard {

struct ScriptBlock;

// A compiled function. Never changes; any number of threads may run it.
class OUTBOARD_API Script {
 public:
  // The last function that `source` defines, which may call the others. Raises RuntimeError with
  // the place where it is wrong.
  explicit Script(const std::string& source);
  ~Script();
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  struct Outcome {
    bool done;             // no assertion failed
    bool wrote_arguments;  // an operator was called that writes to memory of one that counts
  };

  // Takes the arguments, which are all that lies on the stack, and leaves the result. Where an
  // assertion of the script failed, or integers needed more than 64 bits, the stack is empty.
  // `counted`: so many arguments from the first on are not only the script's own.
  Outcome run(torch::jit::Stack& stack, size_t counted) const;

 private:
  std::shared_ptr<void> graph_;  // operations may refer to it
  std::unique_ptr<ScriptBlock> body_;
  size_t registers_ = 0;
};

}  // namespace outboard
