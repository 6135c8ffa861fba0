#include "autograd/autograd.h"

#include <ATen/FuncTorchTLS.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/native_group_norm_ops.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "dispatch/registration.h"
#include "runtime/driver/device.h"

namespace outboard {

thread_local bool t_backward_thread_chosen = false;

void choose_backward_thread(c10::DeviceIndex device) {
  if (!shares_host_memory(device)) return;
  t_backward_thread_chosen = true;
  // Inside a backward pass, the thread that started it has already chosen.
  if (torch::autograd::get_current_graph_task_id() != -1) return;
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

// ---- Group normalization with a gradient in the layout of the input, as on CPU. On other devices
// PyTorch's derivative makes its operands contiguous, and so the gradient.

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Identity; the backward converts the gradient to a memory format.
struct GradientInFormat : public torch::autograd::Function<GradientInFormat> {
  static constexpr bool is_traceable = true;  // by compiled autograd

  static Tensor forward(AutogradContext* context, const Tensor& input, int64_t format) {
    context->saved_data["format"] = format;
    return input;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    // With create_graph, CPU's gradient is contiguous.
    if (!gradients[0].defined() || at::GradMode::is_enabled()) return {gradients[0], Tensor()};
    const auto format = static_cast<at::MemoryFormat>(context->saved_data["format"].toInt());
    return {gradients[0].contiguous(format), Tensor()};
  }
};

// torch.func transforms reject autograd functions in C++.
bool functions_are_allowed() {
  const auto& transforms = at::functorch::functorchTLSAccessor();
  if (transforms == nullptr) return true;
  try {
    transforms->checkSupportsCppAutogradFunction();
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

std::tuple<Tensor, Tensor, Tensor> group_norm(c10::DispatchKeySet keys, const Tensor& input,
                                              const std::optional<Tensor>& weight,
                                              const std::optional<Tensor>& bias, c10::SymInt batch,
                                              c10::SymInt channels, c10::SymInt rest,
                                              int64_t groups, double eps) {
  const at::MemoryFormat format = input.suggest_memory_format();
  // Autograd functions in C++ have no forward-mode derivative.
  const bool brings = format != at::MemoryFormat::Contiguous && at::GradMode::is_enabled() &&
                      input.requires_grad() && !input._fw_grad(/*level=*/0).defined() &&
                      functions_are_allowed();
  return at::_ops::native_group_norm::redispatch(
      generated_autograd(keys),
      brings ? GradientInFormat::apply(input, static_cast<int64_t>(format)) : input, weight, bias,
      std::move(batch), std::move(channels), std::move(rest), groups, eps);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  YieldingLibrary(library, c10::DispatchKey::AutogradPrivateUse1)
      .impl("native_group_norm", TORCH_FN(group_norm));
}

}  // namespace outboard
