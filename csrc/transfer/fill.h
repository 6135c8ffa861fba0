// Filling of tensors on a device's queue.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/export.h"

namespace outboard {

// Fills `tensor`, of any strides, on the device's queue if the driver or a device kernel can: for
// device kernels, which do not wait as a CPU kernel does. Raises as on CPU if the dtype cannot hold
// the value.
OUTBOARD_API void fill_on_device(const at::Tensor& tensor, const at::Scalar& value);

}  // namespace outboard
