// Kernels written in Python, as kernels of the router.
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "device_kernels/definitions/meta_call.h"
#include "device_kernels/definitions/overload.h"
#include "device_kernels/kernel_types.h"
#include "dispatch/external_kernels.h"
#include "dispatch/router.h"
#include "python/bindings.h"
#include "python/python_function.h"

namespace py = pybind11;

namespace outboard {
namespace {

std::string described(at::ScalarType dtype, at::IntArrayRef sizes) {
  std::ostringstream text;
  text << c10::getDtypeNames(dtype).first << " of shape " << sizes;
  return text.str();
}

template <class Function>
void for_tensors(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) function(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& element : value.toListRef()) for_tensors(element, function);
  }
}

// The device of the arguments; none for a factory without a device.
std::optional<c10::Device> device_of_call(const torch::jit::Stack& given) {
  std::optional<c10::Device> device;
  for (const c10::IValue& argument : given) {
    if (device.has_value()) break;
    for_tensors(argument, [&](const at::Tensor& tensor) {
      if (!device.has_value() && tensor.is_privateuseone()) device = tensor.device();
    });
    if (argument.isDevice() && argument.toDevice().has_index()) device = argument.toDevice();
  }
  return device;
}

// Checks what a user's kernel of one overload returned. Any number of threads may use it.
class ResultCheck {
 public:
  explicit ResultCheck(const c10::FunctionSchema& schema)
      : overload_(schema), meta_(overload_.name(), overload_) {}

  // `given` and `returned`: arguments and results of a call. Raises ValueError for a result that is
  // not the tensor that the overload writes, that is on another device than the arguments, or whose
  // dtype or shape differs from that of PyTorch's meta function, if one works without values.
  void check(const torch::jit::Stack& given, const std::vector<c10::IValue>& returned) const;

 private:
  void check_written(const torch::jit::Stack& given,
                     const std::vector<c10::IValue>& returned) const;

  const Overload overload_;
  const MetaCall meta_;
};

void ResultCheck::check_written(const torch::jit::Stack& given,
                                const std::vector<c10::IValue>& returned) const {
  for (size_t k = 0; k < std::min(returned.size(), overload_.written_count()); ++k) {
    if (!returned[k].isTensor()) continue;
    const at::Tensor& written = overload_.given_output(given, k);
    TORCH_CHECK_VALUE(returned[k].toTensor().is_same(written), "the kernel of ", overload_.name(),
                      " returned another tensor than the one that the operator writes; write into "
                      "that and return it");
  }
}

void ResultCheck::check(const torch::jit::Stack& given,
                        const std::vector<c10::IValue>& returned) const {
  if (overload_.form() != Overload::Form::kFunctional) {
    check_written(given, returned);
    return;
  }
  const std::optional<c10::Device> device = device_of_call(given);
  for (const c10::IValue& value : returned) {
    for_tensors(value, [&](const at::Tensor& tensor) {
      const bool there =
          device.has_value() ? tensor.device() == *device : tensor.is_privateuseone();
      TORCH_CHECK_VALUE(there, "the kernel of ", overload_.name(), " returned a tensor on ",
                        tensor.device(), ", and the operator's result is one on ",
                        device.has_value() ? device->str() : std::string("the device"),
                        "; move it there before it is returned");
    });
  }
  const auto expected = meta_.try_results(overload_, given);
  if (!expected.has_value() || expected->size() != returned.size()) return;
  for (size_t k = 0; k < returned.size(); ++k) {
    const at::Tensor& wanted = (*expected)[k];
    if (!returned[k].isTensor() || !wanted.defined()) continue;
    const at::Tensor& tensor = returned[k].toTensor();
    const bool right = tensor.defined() && tensor.scalar_type() == wanted.scalar_type() &&
                       tensor.sizes() == wanted.sizes();
    TORCH_CHECK_VALUE(
        right, "the kernel of ", overload_.name(), " returned ",
        tensor.defined() ? described(tensor.scalar_type(), tensor.sizes()) : std::string("None"),
        " as result ", k, ", and for these arguments the operator's is ",
        described(wanted.scalar_type(), wanted.sizes()));
  }
}

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
    const auto& returns = schema.returns();
    std::vector<c10::IValue> returned;
    if (returns.size() == 1) {
      returned.push_back(torch::jit::toIValue(result, returns[0].type()));
    } else if (!returns.empty()) {
      const auto results = result.cast<py::sequence>();
      TORCH_CHECK_VALUE(results.size() == returns.size(), "the kernel of ", schema.operator_name(),
                        " returned ", results.size(), " values, and the operator has ",
                        returns.size());
      for (size_t i = 0; i < returns.size(); ++i) {
        returned.push_back(torch::jit::toIValue(results[i], returns[i].type()));
      }
    }
    std::call_once(checked_->made,
                   [&] { checked_->check = std::make_unique<ResultCheck>(schema); });
    checked_->check->check(given, returned);
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

  struct Checked {
    std::once_flag made;
    std::unique_ptr<ResultCheck> check;
  };

  const PythonFunction function_;
  std::shared_ptr<Checked> checked_ = std::make_shared<Checked>();
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
        kernel.placement = Placement::kDevice;
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
