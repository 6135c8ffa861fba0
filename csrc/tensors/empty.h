// New tensors on a device.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/driver/device.h"
#include "runtime/export.h"

namespace outboard {

// Uninitialized, from the cache of `device`, for use on its current stream. The index must be in
// range.
OUTBOARD_API at::Tensor empty_on(c10::DeviceIndex device, at::IntArrayRef sizes,
                                 at::ScalarType dtype,
                                 std::optional<at::MemoryFormat> format = std::nullopt);
OUTBOARD_API at::Tensor empty_strided_on(c10::DeviceIndex device, at::IntArrayRef sizes,
                                         at::IntArrayRef strides, at::ScalarType dtype);

}  // namespace outboard
