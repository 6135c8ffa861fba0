// Policies of single operators, by name.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "autograd/autocast.h"

namespace outboard {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
enum class Policy { kLowerPrecision, kFloat32, kWidest };

// Calls a function for each tensor argument, which may be replaced.
template <class Function>
void for_each_tensor(c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    const at::Tensor tensor = value.toTensor();
    value = function(tensor);
  } else if (value.isList()) {
    const c10::List<c10::IValue> list = value.toList();
    c10::List<c10::IValue> replaced(list.elementType());
    replaced.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      c10::IValue element = list.get(i);
      for_each_tensor(element, function);
      replaced.push_back(std::move(element));
    }
    value = std::move(replaced);
  }
}

bool holds_tensors(const c10::Argument& argument) {
  const std::string type = argument.type()->str();
  return type.find("Tensor") != std::string::npos;
}

at::ScalarType target(Policy policy, const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (policy == Policy::kFloat32) return at::kFloat;
  at::ScalarType dtype = at::autocast::get_lower_precision_fp_from_device_type(kType);
  if (policy == Policy::kLowerPrecision) return dtype;
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!holds_tensors(arguments[i])) continue;
    c10::IValue value = torch::jit::peek(stack, i, arguments.size());
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (tensor.defined()) dtype = at::autocast::prioritize(dtype, tensor, kType);
      return tensor;
    });
  }
  return dtype;
}

template <Policy policy>
void call_cast(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(kAutocastKey);
  const at::ScalarType dtype = target(policy, op, *stack);
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!holds_tensors(arguments[i])) continue;
    for_each_tensor(torch::jit::peek(*stack, i, arguments.size()), [&](const at::Tensor& tensor) {
      return at::autocast::cached_cast(dtype, tensor, kType);
    });
  }
  op.callBoxed(stack);
}

torch::CppFunction kernel_of(const std::string& policy) {
  if (policy == "lower_precision_fp") {
    return torch::CppFunction::makeFromBoxedFunction<&call_cast<Policy::kLowerPrecision>>();
  }
  if (policy == "fp32") {
    return torch::CppFunction::makeFromBoxedFunction<&call_cast<Policy::kFloat32>>();
  }
  TORCH_CHECK_VALUE(policy == "promote", "there is no autocast policy '", policy,
                    "'; it is 'lower_precision_fp', 'fp32' or 'promote'");
  return torch::CppFunction::makeFromBoxedFunction<&call_cast<Policy::kWidest>>();
}

struct Given {
  std::mutex mutex;
  // Destroying a library removes its registration.
  std::unordered_map<std::string, std::unique_ptr<torch::Library>> libraries;
};

Given& given() {
  static auto* instance = new Given;
  return *instance;
}

}  // namespace

void set_autocast_policy(const std::string& name, const std::string& policy) {
  torch::CppFunction kernel = kernel_of(policy);
  const size_t separator = name.find("::");
  const size_t dot = name.find('.', separator == std::string::npos ? 0 : separator);
  const auto handle = c10::Dispatcher::singleton().findSchema(
      {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
  TORCH_CHECK_VALUE(separator != std::string::npos && handle.has_value(), "operator '", name,
                    "' does not exist; define it first, and write it as 'library::name.overload'");
  TORCH_CHECK_VALUE(!handle->schema().is_mutable(), "operator '", name,
                    "' writes to its arguments, and autocast would let it write to copies of them; "
                    "give a policy to a form that returns its result");
  register_autocast();
  std::lock_guard<std::mutex> lock(given().mutex);
  std::unique_ptr<torch::Library>& library = given().libraries[name];
  TORCH_CHECK_VALUE(library != nullptr || !handle->hasKernelForDispatchKey(kAutocastKey),
                    "operator '", name,
                    "' has an autocast policy already, from PyTorch's lists or from the "
                    "library that registered it; cast its arguments where you call it");
  library = nullptr;
  auto made = std::make_unique<torch::Library>(torch::Library::IMPL, name.substr(0, separator),
                                               kAutocastKey, __FILE__, __LINE__);
  made->impl(name.substr(separator + 2).c_str(), std::move(kernel));
  library = std::move(made);
}

}  // namespace outboard
