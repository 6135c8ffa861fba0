// Models that PyTorch's AOTInductor has compiled for the CPU, run on tensors of the device.
#pragma once

#include "runtime/export.h"

namespace outboard {

// Tells PyTorch how to run packages (`.pt2`) whose device has the device's name.
OUTBOARD_API void register_packaged_models();

}  // namespace outboard
