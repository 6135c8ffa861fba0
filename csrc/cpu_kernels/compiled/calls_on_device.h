// Operators of the device that code for the CPU calls between its own kernels: those that draw
// random numbers, and an extension's own.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "runtime/export.h"

namespace outboard {

// Defines a twin of an operator in the namespace outboard_on_device, which takes and gives CPU
// tensors and calls the operator with tensors of the current device. Returns the twin's name
// without its namespace. An operator that has a twin gets no other. The operator's results must
// not alias its arguments.
OUTBOARD_API std::string define_call_on_device(const c10::OperatorHandle& op);

// Twins of all of PyTorch's operators that draw, for code that another process compiled.
OUTBOARD_API void define_draws_on_device();

}  // namespace outboard
