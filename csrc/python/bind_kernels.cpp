// Kernels written in Python, as kernels of the router.
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <mutex>
#include <utility>

#include "device_kernels/definitions/result_check.h"
#include "device_kernels/kernel_types.h"
#include "dispatch/external_kernels.h"
#include "dispatch/router.h"
#include "python/bindings.h"
#include "python/python_function.h"

namespace py = pybind11;

namespace outboard {
namespace {

// Calls a Python function with the arguments of an operator, on whichever thread that runs.
class PythonKernel final : public c10::OperatorKernel {
 public:
  explicit PythonKernel(py::function function) : function_(hold_function(std::move(function))) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const c10::FunctionSchema& schema = op.schema();
    const size_t count = schema.arguments().size();
    py::gil_scoped_acquire lock;
    py::list positional;
    py::dict keywords;
    for (size_t i = 0; i < count; ++i) {
      const c10::Argument& argument = schema.arguments()[i];
      py::object value = to_python(torch::jit::peek(*stack, i, count), argument);
      if (argument.kwarg_only()) {
        keywords[argument.name().c_str()] = std::move(value);
      } else {
        positional.append(std::move(value));
      }
    }
    torch::jit::Stack given(stack->end() - static_cast<ptrdiff_t>(count), stack->end());
    torch::jit::drop(*stack, count);
    const py::object result = call(positional, keywords);
    std::vector<c10::IValue> returned = to_results(result, schema.returns());
    std::call_once(check_made_, [&] { check_ = std::make_unique<ResultCheck>(schema); });
    check_->check(given, returned);
    for (c10::IValue& value : returned) stack->push_back(std::move(value));
  }

 private:
  py::object call(const py::list& positional, const py::dict& keywords) const {
    try {
      return (*function_)(*positional, **keywords);
    } catch (const py::error_already_set& error) {
      if (!error.matches(declined_in_python())) throw;
    }
    throw Declined();
  }

  const PythonFunction function_;
  std::once_flag check_made_;
  std::unique_ptr<ResultCheck> check_;
};

// Whether the exception in flight is `Declined`. From a function of torch.library it arrives as
// PyTorch's dispatcher passes it on.
bool recognize_decline() {
  if (!Py_IsInitialized()) return false;
  try {
    throw;
  } catch (python_error& error) {
    const py::gil_scoped_acquire lock;
    if (error.type == nullptr) error.persist();
    return error.type != nullptr &&
           PyErr_GivenExceptionMatches(error.type, declined_in_python().ptr()) != 0;
  } catch (const py::error_already_set& error) {
    const py::gil_scoped_acquire lock;
    return error.matches(declined_in_python());
  } catch (...) {
    return false;
  }
}

}  // namespace

uint64_t dtype_bits(const std::optional<std::vector<at::ScalarType>>& dtypes) {
  if (!dtypes.has_value()) return kAllDtypes;
  uint64_t bits = 0;
  for (const at::ScalarType dtype : *dtypes) bits |= dtype_bit(dtype);
  return bits;
}

void bind_kernels(py::module_& m) {
  m.def(
      "add_kernel",
      [](const std::string& name, py::function function,
         const std::optional<std::vector<at::ScalarType>>& dtypes, c10::DeviceIndex device,
         const std::string& origin) {
        RoutedKernel kernel;
        kernel.kernel = c10::KernelFunction::makeFromBoxedFunctor(
            std::make_unique<PythonKernel>(std::move(function)));
        kernel.source = Source::kUser;
        kernel.device = device;
        kernel.dtypes = dtype_bits(dtypes);
        kernel.origin = origin;
        return add_kernel(name, std::move(kernel));
      },
      py::arg("name"), py::arg("function"), py::arg("dtypes"), py::arg("device"),
      py::arg("origin") = "");
  set_recognize_decline(&recognize_decline);
  m.def("finish_registrations", &finish_registrations);
  m.def("find_raw_kernels", [](const std::vector<std::string>& names) {
    std::vector<c10::OperatorName> parsed;
    for (const std::string& name : names) parsed.push_back(torch::jit::parseName(name));
    find_raw_kernels(parsed);
  });
  m.def("begin_registering", &begin_registering);
  m.def("end_registering", &end_registering);
  m.def("remove_kernel", &remove_kernel);
  m.def("dtype_bits", &dtype_bits);
}

}  // namespace outboard
