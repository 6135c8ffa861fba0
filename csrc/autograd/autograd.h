// Backward passes on the device: their thread, and derivatives for kernels that replace PyTorch's.
// Automatic mixed precision: operators that run in lower precision, in float32, or in the widest
// dtype of their arguments.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>

#include <string>

#include "runtime/export.h"

namespace outboard {

extern __attribute__((tls_model("initial-exec"))) thread_local bool t_backward_thread_chosen;

OUTBOARD_API void choose_backward_thread(c10::DeviceIndex device);

// PyTorch runs the backward pass of a device in its own thread. CPU kernels would then alternate
// between two OpenMP pools, one per calling thread. Together the pools have more threads than there
// are processors, so OpenMP puts them to sleep after every kernel, and waking them takes longer
// than many kernels. So the first time a thread makes a tensor on a device that shares host memory,
// its backward passes run in the thread itself, as for CPU.
// `torch.autograd.set_multithreading_enabled(True)` undoes this permanently. Remove this function
// when PyTorch does the same for graphs on a single device
// (https://github.com/pytorch/pytorch/pull/192004).
inline void ensure_backward_thread(c10::DeviceIndex device) {
  if (__builtin_expect(!t_backward_thread_chosen, 0)) choose_backward_thread(device);
}

// Keys with which a kernel for AutogradPrivateUse1 redispatches to PyTorch's generated derivative,
// from the keys of that kernel. The derivative is registered for the alias Autograd and so hidden
// by the kernel; AutogradOther has the kernels of the alias and no others, and the same keys follow
// it. Keys before autograd, such as the Python dispatcher, have already run.
inline c10::DispatchKeySet generated_autograd(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet kAfter(c10::DispatchKeySet::FULL_AFTER,
                                       c10::DispatchKey::AutogradFunctionality);
  return (keys & kAfter) | c10::DispatchKeySet(c10::DispatchKey::AutogradOther);
}

// ---- Autocast

inline constexpr c10::DispatchKey kAutocastKey = c10::DispatchKey::AutocastPrivateUse1;

// Registers PyTorch's lists for the device and a fallthrough for all other operators; once. Called
// at the first use of the device or of autocast: a vendor's extension may register its own policies
// before, and PyTorch rejects a second fallback. Policies of the vendor stay.
OUTBOARD_API void register_autocast();

// Gives an operator, such as "aten::add.Tensor", a policy by PyTorch's name: "lower_precision_fp",
// "fp32" or "promote". Floating-point arguments except float64 are cast. Replaces the policy of an
// earlier call. Raises ValueError for an unknown name, an operator that writes to its arguments, or
// one with a policy from elsewhere.
OUTBOARD_API void set_autocast_policy(const std::string& name, const std::string& policy);

}  // namespace outboard
