#include "autograd/autograd.h"

#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "dispatch/registration.h"
#include "dispatch/tensor_arguments.h"
#include "runtime/global.h"
#include "torch_version.h"

namespace outboard {

// ---- PyTorch's lists of operators and casts

namespace {

// Used without a namespace in PyTorch's lists.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

Tensor refuse_binary_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&,
                                   int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
              "autocast: the gradient of a low-precision sigmoid's logarithm is lost; use "
              "binary_cross_entropy_with_logits or BCEWithLogitsLoss without the sigmoid layer");
}

#define OUTBOARD_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define OUTBOARD_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define OUTBOARD_FLOAT32_RESULT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define OUTBOARD_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

// PyTorch's macros call `m` as if it were a torch::Library.
void register_lists(YieldingLibrary m) {
  AT_FORALL_LOWER_PRECISION_FP(OUTBOARD_LOWER_PRECISION)
  AT_FORALL_FP32(OUTBOARD_FLOAT32)
#if OUTBOARD_TORCH_AT_LEAST(14)
  // PyTorch registers it separately; it is in none of its lists.
  OUTBOARD_FLOAT32(linalg_matrix_sqrth)
#endif
  AT_FORALL_FP32_SET_OPT_DTYPE(OUTBOARD_FLOAT32_RESULT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(OUTBOARD_PROMOTE)
  m.impl("aten::binary_cross_entropy", TORCH_FN(refuse_binary_cross_entropy));
}

torch::Library& new_library(const char* name_space) {
  // Registrations last until process exit.
  return *new torch::Library(torch::Library::IMPL, name_space, kAutocastKey, __FILE__, __LINE__);
}

}  // namespace

void register_autocast() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kAutocastKey)) {
      new_library("_").fallback(torch::CppFunction::makeFallthrough());
    }
    register_lists(YieldingLibrary(new_library("aten"), kAutocastKey));
  });
}

// ---- Policies of single operators, by name

namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
enum class Policy { kLowerPrecision, kFloat32, kWidest };

at::ScalarType target(Policy policy, at::ArrayRef<c10::IValue> arguments) {
  if (policy == Policy::kFloat32) return at::kFloat;
  at::ScalarType dtype = at::autocast::get_lower_precision_fp_from_device_type(kType);
  if (policy == Policy::kLowerPrecision) return dtype;
  for (const c10::IValue& argument : arguments) {
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      dtype = at::autocast::prioritize(dtype, tensor, kType);
    });
  }
  return dtype;
}

template <Policy policy>
void call_cast(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(kAutocastKey);
  const size_t count = op.schema().arguments().size();
  const at::ScalarType dtype = target(policy, torch::jit::last(*stack, count));
  for (size_t i = 0; i < count; ++i) {
    convert_tensors(torch::jit::peek(*stack, i, count), [&](const at::Tensor& tensor) {
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

// Destroying a library removes its registration.
struct Given : std::unordered_map<std::string, std::unique_ptr<torch::Library>> {};

}  // namespace

void set_autocast_policy(const std::string& name, const std::string& policy) {
  torch::CppFunction kernel = kernel_of(policy);
  const size_t separator = name.find("::");
  const auto handle = c10::Dispatcher::singleton().findSchema(operator_name(name));
  TORCH_CHECK_VALUE(separator != std::string::npos && handle.has_value(), "operator '", name,
                    "' does not exist; define it first, and write it as 'library::name.overload'");
  TORCH_CHECK_VALUE(!handle->schema().is_mutable(), "operator '", name,
                    "' writes to its arguments, and autocast would let it write to copies of them; "
                    "give a policy to a form that returns its result");
  register_autocast();
  const Locked<Given> given;
  std::unique_ptr<torch::Library>& library = (*given)[name];
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
