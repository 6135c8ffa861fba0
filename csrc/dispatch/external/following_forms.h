// The functional and the in-place form of an operator, where only the out= form is registered.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "dispatch/router.h"

namespace outboard {

// The overloads that PyTorch composes of this one: for "aten::add.out" those of "aten::add.Tensor"
// and "aten::add_.Tensor". Their implementations, which PyTorch generates for every backend, check
// the arguments, allocate what the operator's function of shapes says, and call the out= form.
// Empty for other overloads.
std::vector<c10::OperatorHandle> following_forms(const c10::OperatorHandle& out);

// A row for such an overload that runs PyTorch's implementation: for the calls, and with the rank,
// of the out= form's kernel, but behind kernels of its own of that rank.
RoutedKernel following_kernel(const Operator& out, const RoutedKernel& kernel);

// Whether such a row is running on this thread, on behalf of which `out` is called. A kernel of
// `out` that turns out to be gone then gives the call back to the form that was asked for, which
// may have policies and kernels of its own.
bool runs_for_following_form(const Operator& out) noexcept;

// Runs PyTorch's implementation of a form by other operators; false if it has none.
bool run_composite(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace outboard
