// Automatic mixed precision: operators that run in lower precision, in float32, or in the widest
// dtype of their arguments.
#pragma once

#include <c10/core/DispatchKey.h>

#include <string>

#include "runtime/export.h"

namespace outboard {

inline constexpr c10::DispatchKey kAutocastKey = c10::DispatchKey::AutocastPrivateUse1;

// Registers PyTorch's lists for the device and a fallthrough for all other operators; once. Called
// at the first use of autocast: a vendor's extension may register its own policies, and PyTorch
// rejects a second fallback. Policies of the vendor stay.
OUTBOARD_API void register_autocast();

// Gives an operator, such as "aten::add.Tensor", a policy by PyTorch's name: "lower_precision_fp",
// "fp32" or "promote". Floating-point arguments except float64 are cast. Replaces the policy of an
// earlier call. Raises ValueError for an unknown name, an operator that writes to its arguments, or
// one with a policy from elsewhere.
OUTBOARD_API void set_autocast_policy(const std::string& name, const std::string& policy);

}  // namespace outboard
