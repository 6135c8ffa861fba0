// The memory between the first and the last element of a strided tensor.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace outboard {

// Elements from the first one to behind the last one in memory, gaps included; 0 where a size is 0.
// Strides are in elements and not negative. Raises RuntimeError for more than 64 bits hold.
inline int64_t span_elements(at::IntArrayRef sizes, at::IntArrayRef strides) {
  return static_cast<int64_t>(at::detail::computeStorageNbytes(sizes, strides, /*itemsize=*/1));
}

inline int64_t span_elements(const at::Tensor& tensor) {
  return span_elements(tensor.sizes(), tensor.strides());
}

inline int64_t span_bytes(const at::Tensor& tensor) {
  return span_elements(tensor) * static_cast<int64_t>(tensor.itemsize());
}

}  // namespace outboard
