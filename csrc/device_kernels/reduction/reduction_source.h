// Description of a reduction program.
#pragma once

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <string>
#include <vector>

#include "device_kernels/kernel_types.h"
#include "device_kernels/work_shape.h"

namespace outboard {

// Most dimensions, after collapsing, that are reduced and that are kept.
constexpr int kReductionDimensions = 8;
// Vectors that a work item of the kernel `across` holds.
constexpr int kReductionColumns = 8;

struct ReductionDescription {
  std::vector<std::string> fields;  // "T total"
  std::string initial, step, merge;
  std::vector<std::string> results;
  std::vector<bool> indices;            // per result
  std::vector<std::string> parameters;  // numbers of the compute dtype

  // Bytes that one scalar state takes at most.
  size_t state_bytes() const { return 16 * fields.size(); }
};

struct ReductionSource {
  const ReductionDescription& description;
  at::ScalarType input;
  at::ScalarType compute;
  std::vector<at::ScalarType> outputs;
  WorkShape shape;
  int group_lanes;  // 1: no kernels of groups
  bool wide_index;  // 64-bit

  // Of vectors. Indices are int, and a vector of them is as wide as one of values.
  int width() const {
    if (at::isComplexType(compute) || at::isComplexType(input)) return 1;
    return shape.width(static_cast<int>(
        std::max({c10::elementSize(compute), c10::elementSize(value_dtype(input)), size_t{4}})));
  }
};

}  // namespace outboard
