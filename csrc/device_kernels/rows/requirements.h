// Arguments with the only values and dtypes that a row serves: flags, names of modes, None.
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <vector>

#include "device_kernels/rows/overload.h"
#include "device_kernels/rows/row.h"
#include "runtime/export.h"

namespace outboard {

// A row's property `requires`: argument names and texts of values, as Python prints them: "True",
// "None", "2", "0.5", "[]", or the text itself; or ">= 2" for numbers from there on. Of tensors and
// dtypes, where they are given, of each element of a list and of numbers: "dtype bool", "dtype
// float32 float64", "dtype not bool", or "dtype of self", that of another argument. Of dimensions:
// "distinct in self", whose dimensions they are. Lists of as many flags as the schema says need no
// mention.
class OUTBOARD_API Requirements {
 public:
  Requirements(const Row& row, const Overload& overload);
  bool hold(const torch::jit::Stack& stack) const;

 private:
  struct Requirement {
    enum class Kind : uint8_t { kValue, kDtypes, kSameDtype, kDistinct, kLength };
    Kind kind;
    int argument;
    std::string text;
    double number;        // NaN: the text is none
    uint64_t dtypes = 0;  // bits of those of kDtypes
    int other = -1;       // argument that kSameDtype and kDistinct name; of kLength how many
    bool is_number = false;
  };
  Requirement parse(int argument, const std::string& text) const;
  bool holds(const Requirement& requirement, const torch::jit::Stack& stack) const;

  const Overload& overload_;
  std::vector<Requirement> requirements_;
};

}  // namespace outboard
