// Kernels of hardware vendors and users: found, extended to other forms, and declining calls.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <exception>
#include <optional>
#include <vector>

#include "dispatch/router.h"
#include "runtime/export.h"

namespace outboard {

// ---- Kernels registered with PyTorch's dispatcher, by TORCH_LIBRARY_IMPL or torch.library. In the
// router they have a rank among other kernels, appear in reports, and may decline calls.

// Signature of the kit's own registrations, in place of a file name.
constexpr const char* kKitSignature = "torch_outboard";

// The kernel that calls of `op` on the device reach now, if a vendor or user registered it. Kernels
// of Python files count as a user's, all others as a vendor's.
std::optional<RoutedKernel> raw_kernel(const c10::OperatorHandle& op);

// ---- The functional and the in-place form of an operator with an external kernel for out=

// The overloads that PyTorch composes of this one: for "aten::add.out", "aten::add.Tensor" and
// "aten::add_.Tensor". Their implementations, which PyTorch generates for every backend, check the
// arguments, allocate the result by the operator's meta function, and call the out= form. Empty for
// other overloads.
std::vector<c10::OperatorHandle> following_forms(const c10::OperatorHandle& out);

// A kernel for such an overload that runs PyTorch's implementation. It serves the calls, and has
// the rank and the lifetime of the out= form's kernel, but comes after kernels of the form itself.
RoutedKernel following_kernel(const RoutedKernel& out);

// ---- Declining: an external kernel leaves a call to the next one

// Thrown by kernels and caught by the router; raised where the router did not make the call.
class OUTBOARD_API Declined final : public std::exception {
 public:
  const char* what() const noexcept override;
};

// Whether an exception in flight of another language declines. Called in a catch clause on any
// thread; set by the Python binding.
using RecognizeDecline = bool (*)();
OUTBOARD_API void set_recognize_decline(RecognizeDecline function) noexcept;

// Whether the exception in flight declines. Call it in a catch clause.
bool declined() noexcept;

}  // namespace outboard
