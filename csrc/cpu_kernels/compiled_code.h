// Code that was compiled for the CPU, run on tensors of the device.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "runtime/export.h"

namespace outboard {

// ---- Operators of the device that such code calls between its kernels: those that draw random
// numbers, and an extension's

// Defines a twin of an operator in the namespace outboard_on_device, which takes and gives CPU
// tensors and calls the operator with tensors of the current device. Returns the twin's name
// without its namespace. An operator that has a twin gets no other. The operator's results must
// not alias its arguments.
OUTBOARD_API std::string define_call_on_device(const c10::OperatorHandle& op);

// Twins of all of PyTorch's operators that draw, for code that another process compiled.
OUTBOARD_API void define_draws_on_device();

// ---- Models that PyTorch's AOTInductor compiled for the CPU

// Tells PyTorch how to run packages (`.pt2`) whose device has the device's name.
OUTBOARD_API void register_packaged_models();

}  // namespace outboard
