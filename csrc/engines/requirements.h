// Arguments with the only values that a row serves: flags, names of modes, None.
#pragma once

#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "engines/overload.h"
#include "engines/row.h"
#include "runtime/export.h"

namespace outboard {

// A row's property `requires`: argument names and texts of values, as Python prints them: "True",
// "None", "2", "0.5", or the text itself; or ">= 2" for numbers from there on.
class OUTBOARD_API Requirements {
 public:
  Requirements(const Row& row, const Overload& overload);
  bool hold(const torch::jit::Stack& stack) const;

 private:
  struct Requirement {
    int argument;
    std::string text;
    double number;  // NaN: the text is none
  };
  const Overload& overload_;
  std::vector<Requirement> requirements_;
};

}  // namespace outboard
