// Dense tensors of a device: new ones, the extent of their memory, and their storages.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <optional>

#include "runtime/driver/device.h"
#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// Uninitialized, from the cache of `device`, for its current stream. The index must be in range.
OUTBOARD_API at::Tensor empty_on(c10::DeviceIndex device, at::IntArrayRef sizes,
                                 at::ScalarType dtype,
                                 std::optional<at::MemoryFormat> format = std::nullopt);
OUTBOARD_API at::Tensor empty_strided_on(c10::DeviceIndex device, at::IntArrayRef sizes,
                                         at::IntArrayRef strides, at::ScalarType dtype);

// Elements of memory from the first to the last element, gaps included; 0 where a size is 0.
// Strides are in elements and not negative. Raises RuntimeError where 64 bits overflow.
inline int64_t span_elements(at::IntArrayRef sizes, at::IntArrayRef strides) {
  return static_cast<int64_t>(at::detail::computeStorageNbytes(sizes, strides, /*itemsize=*/1));
}
inline int64_t span_elements(const at::Tensor& tensor) {
  return span_elements(tensor.sizes(), tensor.strides());
}
inline int64_t span_bytes(const at::Tensor& tensor) {
  return span_elements(tensor) * static_cast<int64_t>(tensor.itemsize());
}

// Raises NotImplementedError for a dense tensor without storage: a vendor's implementation that
// hides its memory from PyTorch. Not for sparse tensors, which never have one.
[[noreturn]] OUTBOARD_API void throw_without_storage(const at::Tensor& tensor);
inline void check_has_storage(const at::Tensor& tensor) {
  if (C10_UNLIKELY(!tensor.unsafeGetTensorImpl()->has_storage())) throw_without_storage(tensor);
}

// Enqueues a copy of bytes within the device of `stream`.
void copy_within_device(StreamState& stream, void* destination, const void* source, size_t bytes);
// Allocates new memory of `bytes` for `storage` on its device and copies the content, as far as it
// fits, on the device's current stream. Raises if the storage is not resizable.
void resize_storage_bytes(c10::StorageImpl* storage, size_t bytes);

}  // namespace outboard
