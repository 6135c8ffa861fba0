// Filling tensors with one value by the driver.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/export.h"

namespace outboard {

// Enqueues a driver fill of `tensor` with `value` on the device's current stream and returns true.
// Returns false, having done nothing, where a CPU kernel does it: the device shares
// memory with the host, or the tensor has gaps. Raises as on CPU if the dtype cannot hold the
// value.
OUTBOARD_API bool fill_dense(const at::Tensor& tensor, const at::Scalar& value);

// Fills `tensor`, which may be strided, on the device's queue where anything there can: for device
// kernels, which do not wait as a CPU kernel does. Raises as on CPU if the dtype cannot hold the
// value.
OUTBOARD_API void fill_on_device(const at::Tensor& tensor, const at::Scalar& value);

// Puts fill_.Scalar and zero_ by the driver behind the router, for devices whose memory the host
// cannot touch.
void register_fills();

}  // namespace outboard
