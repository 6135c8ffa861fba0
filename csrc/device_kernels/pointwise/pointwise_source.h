// Description of a pointwise program: one expression over operands of given dtypes. Kernels: for
// contiguous operands and for any strides; or for crossed inputs, contiguous along another
// dimension than the outputs; or for the contiguous operands of many calls, as of operators over
// lists.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device_kernels/work_shape.h"
#include "runtime/export.h"

namespace outboard {

// Dimension limit of the strided kernel, after collapsing.
constexpr int kPointwiseDimensions = 12;
// Elements of a tile along each dimension, in the kernel for crossed inputs.
constexpr int kCrossedTile = 32;

struct PointwiseSource {
  // Result of an expression: a value of the compute dtype, the mask of a comparison, or the real
  // value type of a complex one.
  enum class Result { kValue, kMask, kReal };
  struct Output {
    at::ScalarType dtype;
    Result result;
    std::string expression;
    std::optional<size_t> in_place;  // many calls: the input with its memory
  };
  struct Input {
    std::string name;  // in the expressions
    at::ScalarType dtype;
    bool mask;             // a mask instead of a value
    bool by_value;         // a kernel argument of the compute dtype, not memory
    bool uniform = false;  // one element, read once per work-item
    // Many calls: shared by all calls; one element where outputs have more.
    bool common = false;
    bool single = false;
  };

  std::vector<Output> outputs;
  std::vector<Input> inputs;
  std::vector<std::string> scalars;  // arguments of the compute dtype
  std::vector<bool> listed_scalars;  // many calls: one value per call
  // The divisor of integers: if one of its elements is 0, the kernel sets the assert flag, its last
  // argument. Not for crossed inputs.
  std::optional<size_t> divisor;
  // A condition: if it holds for an element, the kernel sets its last argument, of float32, to 1.
  // Not together with a divisor, nor for crossed inputs.
  std::string condition;
  // Names and scalar expressions that a work-group computes once from uniform inputs and scalars;
  // `expressions` use them as scalars.
  std::vector<std::pair<std::string, std::string>> once;
  at::ScalarType compute;
  WorkShape shape;
  bool wide_index;       // 64-bit
  bool scalar = false;   // the expressions are valid for scalars only
  bool crossed = false;  // only the kernel for crossed inputs; needs vectors
  int calls = 0;         // if not 0, only the kernel for so many calls

  // Elements of a vector; 1 for complex values, which have no vectors.
  OUTBOARD_API int width() const;
  // Elements per work-item; for many calls the parts of `parts()` consecutive groups.
  int elements() const { return shape.elements(width()); }
  // Passes of a work-group over its elements, for many calls.
  int parts() const { return shape.chunk == 0 ? 4 : 1; }
};

}  // namespace outboard
