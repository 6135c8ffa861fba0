// The functional and the in-place form of an operator, where only the out= form is registered.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "dispatch/router.h"

namespace outboard {

// The overloads that PyTorch composes of this one: for "aten::add.out" those of "aten::add.Tensor"
// and "aten::add_.Tensor". Their implementations, which PyTorch generates for every backend, check
// the arguments, allocate the result by the operator's meta function, and call the out= form.
// Empty for other overloads.
std::vector<c10::OperatorHandle> following_forms(const c10::OperatorHandle& out);

// A row for such an overload that runs PyTorch's implementation: for the calls, with the rank, and
// for the time of the out= form's kernel, but behind kernels of the form itself.
RoutedKernel following_kernel(const RoutedKernel& out);

}  // namespace outboard
