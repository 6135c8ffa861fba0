// Copies within a device that a kernel does: conversions, and layouts that are no few runs of
// bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/export.h"

namespace outboard {

// Enqueues the copy on the current stream of the tensors' device. `source` can be broadcast to the
// sizes of `destination`, and there is at least one element. Returns false to decline.
using DeviceCopy = bool (*)(const at::Tensor& destination, const at::Tensor& source);

// Registered by the kernel generator that makes such copies.
OUTBOARD_API void set_device_copy(DeviceCopy function);

// Whether copies within `device` should be given to it: code runs there, and device
// kernels run its operators.
bool device_copies(c10::DeviceIndex device);

// Does the copy, or declines.
bool copy_on_device(const at::Tensor& destination, const at::Tensor& source);

}  // namespace outboard
