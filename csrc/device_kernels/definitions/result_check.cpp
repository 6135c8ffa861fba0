#include "device_kernels/definitions/result_check.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>

#include "dispatch/tensor_arguments.h"

namespace outboard {
namespace {

std::string described(at::ScalarType dtype, at::IntArrayRef sizes) {
  std::ostringstream text;
  text << c10::getDtypeNames(dtype).first << " of shape " << sizes;
  return text.str();
}

// The device of the arguments; none for a factory without a device.
std::optional<c10::Device> device_of_call(const torch::jit::Stack& given) {
  std::optional<c10::Device> device;
  for (const c10::IValue& argument : given) {
    if (device.has_value()) break;
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      if (!device.has_value() && tensor.is_privateuseone()) device = tensor.device();
    });
    if (argument.isDevice() && argument.toDevice().has_index()) device = argument.toDevice();
  }
  return device;
}

}  // namespace

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
    for_each_tensor(value, [&](const at::Tensor& tensor) {
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

}  // namespace outboard
