#include "device_kernels/pointwise/pointwise_source.h"

#include <algorithm>

#include "device_kernels/kernel_types.h"

namespace outboard {

int PointwiseSource::width() const {
  size_t largest = c10::elementSize(compute);
  bool is_complex = at::isComplexType(compute);
  const auto see = [&](at::ScalarType dtype) {
    largest = std::max(largest, c10::elementSize(value_dtype(dtype)));
    is_complex = is_complex || at::isComplexType(dtype);
  };
  for (const auto& output : outputs) see(output.dtype);
  for (const auto& input : inputs) see(input.dtype);
  return is_complex || scalar ? 1 : shape.width(static_cast<int>(largest));
}

}  // namespace outboard
