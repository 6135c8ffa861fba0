#include "engines/meta_call.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>

#include <optional>

#include "aten/meta_kernels.h"

namespace outboard {
namespace {

c10::OperatorHandle find_judge(const std::string& name) {
  const size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      name.substr(0, dot).c_str(), dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
}

at::Tensor meta_like(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

c10::IValue meta_like(const c10::IValue& argument) {
  if (argument.isTensor()) return meta_like(argument.toTensor());
  if (argument.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : argument.toTensorList()) list.push_back(meta_like(tensor));
    return list;
  }
  if (argument.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : argument.toOptionalTensorList()) {
      list.push_back(tensor.has_value() ? std::optional(meta_like(*tensor)) : std::nullopt);
    }
    return list;
  }
  return argument;
}

}  // namespace

MetaCall::MetaCall(const std::string& judge)
    : judge_(find_judge(judge)), kernel_(find_meta_kernel(judge)) {}

std::vector<at::Tensor> MetaCall::results(const Overload& overload,
                                          const torch::jit::Stack& stack) const {
  torch::jit::Stack arguments;
  for (const c10::Argument& argument : judge_.schema().arguments()) {
    const int at = overload.find(argument.name());
    TORCH_INTERNAL_ASSERT(at >= 0, overload.name(), " has no argument ", argument.name());
    arguments.push_back(meta_like(overload.read(stack, at)));
  }
  if (kernel_ != nullptr) {
    kernel_->callBoxed(judge_, c10::DispatchKeySet(c10::DispatchKey::Meta), &arguments);
  } else {
    judge_.callBoxedForDispatchKey(c10::DispatchKey::Meta, arguments);
  }
  std::vector<at::Tensor> results;
  for (c10::IValue& value : arguments) results.push_back(std::move(value).toTensor());
  return results;
}

}  // namespace outboard
