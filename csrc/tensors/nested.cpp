#include <ATen/NestedTensorImpl.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "dispatch/registration.h"
#include "tensors/layouts.h"

namespace outboard {
namespace {

constexpr c10::DispatchKey kNestedKey = c10::DispatchKey::NestedTensorPrivateUse1;
// The key of another out-of-tree accelerator. PyTorch registers kernels for it that are operators
// on the buffer, and so work on any device.
constexpr c10::DispatchKey kAnyDevice = c10::DispatchKey::NestedTensorHPU;

// Exceptions: these call CUDA's kernel or else CPU's.
constexpr std::array<std::string_view, 3> kOfTheProcessor = {
    "aten::native_layer_norm",
    "aten::native_layer_norm_backward",
    "aten::_transformer_encoder_layer_fwd",
};

at::native::NestedTensorImpl& nested(const at::Tensor& tensor) {
  return *static_cast<at::native::NestedTensorImpl*>(tensor.unsafeGetTensorImpl());
}

void run_as_on_any_device(const c10::OperatorHandle& op, c10::DispatchKeySet,
                          torch::jit::Stack* stack) {
  op.callBoxedForDispatchKey(kAnyDevice, *stack);
}

at::Tensor storage_offsets(const at::Tensor& self) { return nested(self).get_storage_offsets(); }

bool is_pinned(const at::Tensor&, std::optional<at::Device>) { return false; }

}  // namespace

at::Tensor nested_over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like) {
  const at::native::NestedTensorImpl& from = nested(like);
  return at::detail::make_tensor<at::native::NestedTensorImpl>(
      std::move(storage), keys, like.dtype(), from.get_nested_sizes(), from.get_nested_strides(),
      from.get_storage_offsets());
}

void register_nested_operators(torch::Library& dense) {
  // Sizes, strides and offsets are on the CPU.
  YieldingLibrary(dense, c10::DispatchKey::PrivateUse1)
      .impl("_nested_view_from_buffer", TORCH_FN(at::native::_nested_view_from_buffer));
  auto* library = new torch::Library(torch::Library::IMPL, "aten", kNestedKey, __FILE__, __LINE__);
  YieldingLibrary kernels(*library, kNestedKey);
  kernels.impl("_nested_tensor_storage_offsets", TORCH_FN(storage_offsets));
  kernels.impl("is_pinned", TORCH_FN(is_pinned));
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto handle = dispatcher.findSchema(name);
    if (!handle.has_value() || !handle->hasKernelForDispatchKey(kAnyDevice) ||
        std::ranges::find(kOfTheProcessor, name.name) != kOfTheProcessor.end()) {
      continue;
    }
    kernels.impl(c10::toString(name).substr(6).c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&run_as_on_any_device>());
  }
  route_operators_like(c10::DispatchKey::NestedTensorCPU, kNestedKey, *library);
  register_layout_fallback(kNestedKey);
}

}  // namespace outboard
