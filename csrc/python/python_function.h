// Functions in Python that C++ calls on whichever thread needs them.
#pragma once

#include <ATen/core/function_schema.h>
#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <memory>

#include "device_kernels/definitions/definition.h"

namespace outboard {

// A reference that may be given back on any thread, and after the interpreter's end.
using PythonFunction = std::shared_ptr<pybind11::function>;
PythonFunction hold_function(pybind11::function function);

// An argument as Python sees it: a dtype, layout or memory format travels as a number.
pybind11::object to_python(const c10::IValue& value, const c10::Argument& argument);

// A function of an operator definition. Its parameters are the names of values; one that is a
// keyword of Python has an underscore at its end. It declines a call by raising `Declined`, and
// where its integers need more than 64 bits; other exceptions reach the caller as they are.
//
// It runs as a kernel in C++ does: what it calls is seen by no mode of the user (TorchFunctionMode,
// such as torch.set_default_device), by no torch.jit.trace, and by no torch.compile.
Definition::Function make_decomposition(pybind11::function function);

// Runs `work` with the interpreter lock, on any thread, as a kernel in C++ runs: function modes,
// torch.jit.trace and torch.compile do not see it. Returns false if the interpreter is ending.
bool run_in_interpreter(const std::function<void()>& work);

// To be called at exit. Waits for calls under way; later calls of other threads return false.
// Python would end those threads where they ask for the interpreter lock.
void stop_interpreter_calls();

// The exception `Declined`.
pybind11::object declined_in_python();

}  // namespace outboard
