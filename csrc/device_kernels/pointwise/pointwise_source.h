// Description of a pointwise program: one expression over operands of given dtypes, as a kernel
// for contiguous operands and one for any strides; as one for inputs whose elements follow each
// other along another dimension than those of the outputs; or as one for the contiguous operands of
// many calls, as of operators over lists of tensors.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device_kernels/work_shape.h"
#include "runtime/export.h"

namespace outboard {

// Most dimensions, after collapsing, that the strided kernel takes.
constexpr int kPointwiseDimensions = 12;
// Elements of a tile along both of its dimensions, in the kernel for crossed inputs.
constexpr int kCrossedTile = 32;

struct PointwiseSource {
  // What an expression gives: a value of the compute dtype, what a comparison gives, or the real
  // value type behind a complex one.
  enum class Result { kValue, kMask, kReal };
  struct Output {
    at::ScalarType dtype;
    Result result;
    std::string expression;
    std::optional<size_t> in_place;  // for many calls: the input that has its memory
  };
  struct Input {
    std::string name;  // in the expressions
    at::ScalarType dtype;
    bool mask;             // in the expressions: a mask instead of a value
    bool by_value;         // a kernel argument instead of memory; then `dtype` is the compute dtype
    bool uniform = false;  // one element, which a work item reads once
    // For many calls: all have the same; one element where outputs have more.
    bool common = false;
    bool single = false;
  };

  std::vector<Output> outputs;
  std::vector<Input> inputs;
  std::vector<std::string> scalars;  // arguments of the compute dtype
  std::vector<bool> listed_scalars;  // for many calls: each has a value of its own
  // The input by which integers are divided: where one of its elements is 0, the kernel sets the
  // assert flag that is its last argument. Not for crossed inputs.
  std::optional<size_t> divisor;
  // A condition: where it holds for an element, the kernel sets its last argument, of float32,
  // to 1. Not together with a divisor, nor for crossed inputs.
  std::string condition;
  // Names and expressions, for scalars, of what a work-group computes once, of the uniform inputs
  // and the scalars; `expressions` see it as one more scalar.
  std::vector<std::pair<std::string, std::string>> once;
  at::ScalarType compute;
  WorkShape shape;
  bool wide_index;       // 64-bit
  bool scalar = false;   // the expressions are for scalars alone
  bool crossed = false;  // the kernel for crossed inputs alone; needs vectors
  int calls = 0;         // the kernel for so many calls alone, if any

  // Elements of a vector; 1, for scalars, where values are complex: vectors of those do not exist.
  OUTBOARD_API int width() const;
  // Elements of one work item; of many calls the parts of `parts()` groups that follow each other.
  int elements() const { return shape.elements(width()); }
  // How often a work-group goes through as many elements as its work items have, for many calls.
  int parts() const { return shape.chunk == 0 ? 4 : 1; }
};

}  // namespace outboard
