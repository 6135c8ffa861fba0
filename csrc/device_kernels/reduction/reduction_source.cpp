#include "device_kernels/reduction/reduction_source.h"

#include <algorithm>

#include "device_kernels/kernel_types.h"

namespace outboard {

int ReductionSource::width() const {
  if (at::isComplexType(compute) || at::isComplexType(input)) return 1;
  return shape.width(static_cast<int>(
      std::max({c10::elementSize(compute), c10::elementSize(value_dtype(input)), size_t{4}})));
}

}  // namespace outboard
