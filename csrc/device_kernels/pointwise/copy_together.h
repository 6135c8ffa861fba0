// Many small copies within a device in few launches.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

namespace outboard {

// Copies each source to the destination of equal sizes. Destinations have one dtype and device and
// share no memory with a source. Returns false and does nothing if tensors are not contiguous,
// differ in dtype or device, or are large enough for a launch each.
bool copy_together(c10::ArrayRef<at::Tensor> destinations, c10::ArrayRef<at::Tensor> sources);

}  // namespace outboard
