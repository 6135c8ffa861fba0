// Kernels that others registered with PyTorch's dispatcher for the device: TORCH_LIBRARY_IMPL and
// torch.library. The router learns of them, so that they have a rank among other kernels, appear in
// reports, and may decline calls.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "dispatch/router.h"

namespace outboard {

// How the kit signs its own registrations, where PyTorch wants a file name.
constexpr const char* kKitSignature = "torch_outboard";

// The kernel that calls of `op` on the device reach now, as a row for the router, if a vendor or
// user registered it. Kernels of Python files count as a user's, all others as a vendor's.
std::optional<RoutedKernel> raw_kernel(const c10::OperatorHandle& op);

}  // namespace outboard
