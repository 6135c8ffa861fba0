// Automatic mixed precision: which operators run in lower precision, in float32, or in the widest
// dtype of their arguments.
#pragma once

#include <c10/core/DispatchKey.h>

#include <string>

#include "runtime/export.h"

namespace outboard {

inline constexpr c10::DispatchKey kAutocastKey = c10::DispatchKey::AutocastPrivateUse1;

// Registers PyTorch's lists for the device, and that all other operators run with the dtypes they
// are given; once. Not before autocast is asked for: a vendor's extension may register policies of
// its own, and the second who registers for all operators is refused by PyTorch. What a vendor
// registered is kept.
OUTBOARD_API void register_autocast();

// Gives an operator, named like "aten::add.Tensor", a policy by PyTorch's name for it:
// "lower_precision_fp", "fp32" or "promote". Floating-point tensors among its arguments are cast,
// but no float64. Replaces the policy of an earlier call. Raises ValueError for a name that is
// none, an operator that writes to its arguments, or one whose policy came from elsewhere.
OUTBOARD_API void set_autocast_policy(const std::string& name, const std::string& policy);

}  // namespace outboard
