// Python functions that C++ calls on any thread.
#pragma once

#include <ATen/core/function_schema.h>
#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "device_kernels/definitions/definition.h"
#include "runtime/global.h"

namespace outboard {

// A reference that may be released on any thread, and after the interpreter's end.
using PythonFunction = std::shared_ptr<pybind11::function>;
PythonFunction hold_function(pybind11::function function);

// The global Python function of type Function, which C++ calls by a plain pointer. Its exception
// becomes one of PyTorch after Function::kFailure.
template <class Function>
void store_function(pybind11::function function) {
  static_cast<pybind11::object&>(global<Function>()) = std::move(function);
}
template <class Function>
void call_stored_function() {
  const pybind11::gil_scoped_acquire lock;
  try {
    global<Function>()();
  } catch (const pybind11::error_already_set& error) {
    TORCH_CHECK(false, Function::kFailure, error.what());
  }
}

// An argument as a Python object. IValues hold dtypes, layouts and memory formats as integers.
pybind11::object to_python(const c10::IValue& value, const c10::Argument& argument);

// The results of an operator from what a function returned: an object, or a sequence of them.
std::vector<c10::IValue> to_results(const pybind11::object& result,
                                    const std::vector<c10::Argument>& returns);

// A function of an operator definition. Its parameters are names of values; a name that is a Python
// keyword has a trailing underscore. It declines a call by raising `Declined` or ArithmeticError
// (an integer of more than 64 bits); the caller gets other exceptions unchanged. It runs like a
// kernel in C++, see run_in_interpreter.
Definition::Function make_decomposition(pybind11::function function);

// Runs `work` with the interpreter lock, on any thread, like a kernel in C++: function modes of the
// user (such as torch.set_default_device), torch.jit.trace and torch.compile do not see its calls.
// Returns false if the interpreter is ending.
bool run_in_interpreter(const std::function<void()>& work);

// Call at exit. Waits for calls under way; later calls of other threads return false, because
// Python would end those threads when they ask for the interpreter lock.
void stop_interpreter_calls();

// The exception `Declined`.
pybind11::object declined_in_python();

}  // namespace outboard
