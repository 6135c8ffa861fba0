// Copies between tensors, and fills.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/export.h"

namespace outboard {

// Writes `source`, broadcast and converted, into `destination`. At least one is on a device of this
// backend, the other may be on the CPU. Waits only where the host is involved; a copy from or to
// pinned memory with `non_blocking` does not.
OUTBOARD_API void copy_into(const at::Tensor& destination, const at::Tensor& source,
                            bool non_blocking = false);

// Copies within a device by a kernel, for conversions and for layouts with many runs of bytes.
// Enqueues the copy on the current stream of the tensors' device, or returns false to decline.
// `source` can be broadcast to the sizes of `destination`, which has at least one element.
using DeviceCopy = bool (*)(const at::Tensor& destination, const at::Tensor& source);
// Called by the kernel generator that makes such copies.
OUTBOARD_API void set_device_copy(DeviceCopy function);

// Fills `tensor`, of any strides, on the device's queue if the driver or a device kernel can: for
// device kernels, which do not wait as a CPU kernel does. Raises as on CPU if the dtype cannot hold
// the value.
OUTBOARD_API void fill_on_device(const at::Tensor& tensor, const at::Scalar& value);

}  // namespace outboard
