// Description of a reduction program.
#pragma once

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <string>
#include <vector>

#include "device_kernels/kernel_types.h"
#include "device_kernels/work_shape.h"

namespace outboard {

// Dimension limits, after collapsing: of reduced ones, and of kept ones.
constexpr int kReductionDimensions = 8;
// Vectors per work-item in the kernel `across`.
constexpr int kReductionColumns = 8;

struct ReductionDescription {
  std::vector<std::string> fields;  // "T total"
  std::string initial, step, merge;
  std::vector<std::string> results;
  std::vector<bool> indices;            // per result
  std::vector<std::string> parameters;  // numbers of the compute dtype

  // Upper bound of the bytes of a scalar state.
  size_t state_bytes() const { return 16 * fields.size(); }
};

struct ReductionSource {
  const ReductionDescription& description;
  at::ScalarType input;
  at::ScalarType compute;
  std::vector<at::ScalarType> outputs;
  WorkShape shape;
  int group_lanes;  // 1: no kernels with shared work
  bool wide_index;  // 64-bit

  // Elements of a vector. Indices are int, and their vectors are as wide as those of values.
  int width() const {
    if (at::isComplexType(compute) || at::isComplexType(input)) return 1;
    return shape.width(static_cast<int>(
        std::max({c10::elementSize(compute), c10::elementSize(value_dtype(input)), size_t{4}})));
  }
};

}  // namespace outboard
