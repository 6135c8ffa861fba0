// Which attention kernel scaled_dot_product_attention takes: the one the CPU would. The kernels
// themselves (_scaled_dot_product_flash_attention_for_cpu and its backward) come through the
// router. The CPU's choice is an ordinary function, so it can be had without calling a stub.
//
// DTensor does not know the CPU's kernel, and context parallelism, which sends parts of keys and
// values from rank to rank, neither: they know those of CUDA. For them the kernel is called
// _scaled_dot_product_efficient_attention, which is the same by another name.
#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "cpu_kernels/typed/typed_overload.h"

namespace outboard::cpu_kernels {

namespace {

// A tensor of a class written in Python, outside of what traces programs, where the names of
// operators count.
bool is_wrapped(const at::Tensor& tensor) {
  return tensor.key_set().has(c10::DispatchKey::Python) &&
         !c10::impl::TorchDispatchModeTLS::any_modes_set();
}

int64_t attention_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double dropout, bool causal,
                         std::optional<double> scale, bool grouped) {
  const int64_t choice =
      at::native::_fused_sdp_choice_cpp(query, key, value, mask, dropout, causal, scale, grouped);
  const bool fused = choice == static_cast<int64_t>(at::SDPBackend::flash_attention);
  return fused && !grouped && is_wrapped(query)
             ? static_cast<int64_t>(at::SDPBackend::efficient_attention)
             : choice;
}

// Not if an extension that was loaded before has its own; one that comes later replaces ours.
const bool filled = [] {
  auto& stub = at::native::_fused_sdp_choice_stub;
#ifdef OUTBOARD_CPU_STUBS  // else stubs cannot be asked
  if (stub.is_device_supported(at::kPrivateUse1)) return false;
#endif
  stub.set_privateuse1_dispatch_ptr(&attention_choice);
  return true;
}();

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>& bias, bool, double dropout, bool causal,
    std::optional<double> scale) {
  auto [output, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      query, key, value, dropout, causal, bias, scale);
  // Of a generator that nobody uses, as there is no dropout.
  const at::Tensor seed = at::empty({}, query.options().dtype(at::kLong));
  return {output, logsumexp, seed, seed};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_attention_backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& bias, const at::Tensor& output, const at::Tensor& logsumexp,
    const at::Tensor&, const at::Tensor&, double dropout, std::array<bool, 4> wanted, bool causal,
    std::optional<double> scale) {
  TORCH_CHECK(!wanted[3],
              "the gradient of attn_bias was asked for, and this attention kernel has "
              "none; use scaled_dot_product_attention under "
              "torch.nn.attention.sdpa_kernel(SDPBackend.MATH)");
  const std::optional<at::Tensor> mask =
      bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
  auto [query_grad, key_grad, value_grad] =
      at::_scaled_dot_product_flash_attention_for_cpu_backward(
          grad, query, key, value, output, logsumexp, dropout, causal, mask, scale);
  return {query_grad, key_grad, value_grad, at::Tensor()};
}

}  // namespace

OUTBOARD_ROUTED("_scaled_dot_product_efficient_attention", efficient_attention)
OUTBOARD_ROUTED("_scaled_dot_product_efficient_attention_backward", efficient_attention_backward)

}  // namespace outboard::cpu_kernels
