// Copies between tensors of any devices, layouts and dtypes.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/export.h"

namespace outboard {

// Writes `source`, broadcast and converted, into `destination`. At least one is on a device of
// ours, the other may be on the CPU. Waits only where the host is involved: for a copy from or to
// pinned memory with `non_blocking` the call returns at once.
OUTBOARD_API void copy_into(const at::Tensor& destination, const at::Tensor& source,
                            bool non_blocking = false);

}  // namespace outboard
