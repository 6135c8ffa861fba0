// Many small copies within a device in few launches.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

namespace outboard {

// Copies each source to its destination, which has the same sizes; destinations have one dtype, are
// on one device and share no memory with a source. False, and nothing happened, where tensors are
// not contiguous, of different dtypes or devices, or so large that a launch of their own costs
// nothing.
bool copy_together(c10::ArrayRef<at::Tensor> destinations, c10::ArrayRef<at::Tensor> sources);

}  // namespace outboard
