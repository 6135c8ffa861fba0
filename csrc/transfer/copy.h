// Copies between tensors.
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

}  // namespace outboard
