// Code that was compiled for the CPU, run on tensors of the device.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "runtime/export.h"

namespace outboard {

// ---- Operators of the device that such code calls between its kernels: those that draw random
// numbers, and an extension's

// Defines a twin of an operator in the namespace outboard_on_device: it takes and returns CPU
// tensors and calls the operator with tensors of the current device. Returns the twin's name
// without namespace. One twin per operator. The operator's results must not alias its arguments.
OUTBOARD_API std::string define_call_on_device(const c10::OperatorHandle& op);

// Defines twins of all random operators of PyTorch, for code from another process.
OUTBOARD_API void define_draws_on_device();

// ---- Models that PyTorch's AOTInductor compiled for the CPU

// Registers a runner with PyTorch for packages (`.pt2`) whose device has this backend's name.
OUTBOARD_API void register_packaged_models();

}  // namespace outboard
