// The attention kernel of scaled_dot_product_attention: the CPU's choice, which is an ordinary
// function and needs no stub. The kernels, _scaled_dot_product_flash_attention_for_cpu and its
// backward, run through the router.
//
// DTensor and context parallelism, which sends parts of keys and values from rank to rank, do not
// know the CPU's kernel, but CUDA's. For them the kernel has the name
// _scaled_dot_product_flash_attention, or _scaled_dot_product_efficient_attention with a mask.
// These compute the same, in the shapes and strides of their meta functions.
#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_ops.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <limits>

#include "autograd/autograd.h"
#include "cpu_kernels/typed/typed_kernel.h"
#include "dispatch/registration.h"

namespace outboard::cpu_kernels {

namespace {

// A tensor of a Python class, outside of tracing, where the names of operators count.
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
  return fused && !grouped && mask.has_value() && is_wrapped(query)
             ? static_cast<int64_t>(at::SDPBackend::efficient_attention)
             : choice;
}

// An extension that was loaded before keeps its function; a later one replaces this.
const bool filled = [] {
  auto& stub = at::native::_fused_sdp_choice_stub;
#ifdef OUTBOARD_CPU_STUBS  // else stubs cannot be asked
  if (stub.is_device_supported(at::kPrivateUse1)) return false;
#endif
  stub.set_privateuse1_dispatch_ptr(&attention_choice);
  return true;
}();

// A tensor (batch, heads, rows, ...) with the memory layout (batch, rows, heads, ...).
at::Tensor rows_before_heads(const at::Tensor& tensor) {
  return tensor.transpose(1, 2).contiguous().transpose(1, 2);
}

at::Tensor laid_out_like(const at::Tensor& tensor, const at::Tensor& model) {
  return tensor.strides() == model.strides() ? tensor : at::empty_like(model).copy_(tensor);
}

// Gradients of query, key and value. `logsumexp` is in float; double needs it unrounded.
auto gradients(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
               const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp,
               double dropout, bool causal, const std::optional<at::Tensor>& mask,
               std::optional<double> scale) {
  const at::Tensor sums = query.scalar_type() == at::kDouble
                              ? std::get<1>(at::_scaled_dot_product_flash_attention_for_cpu(
                                    query, key, value, dropout, causal, mask, scale))
                              : rows_before_heads(logsumexp);
  return at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad, query, key, value, output, sums, dropout, causal, mask, scale);
}

// ---- _scaled_dot_product_efficient_attention

// The returned sums have a multiple of this many rows.
constexpr int64_t kRowsOfSums = 32;

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>& bias, bool computes_sums, double dropout, bool causal,
    std::optional<double> scale) {
  auto [output, sums] = at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout,
                                                                        causal, bias, scale);
  const int64_t rows = query.size(2);
  const int64_t padded = (rows + kRowsOfSums - 1) / kRowsOfSums * kRowsOfSums;
  at::Tensor logsumexp =
      at::full({query.size(0), query.size(1), computes_sums ? padded : 0},
               std::numeric_limits<double>::infinity(), query.options().dtype(at::kFloat));
  if (computes_sums) logsumexp.narrow(2, 0, rows).copy_(sums);
  // Generator state, unused without dropout.
  const auto number = query.options().dtype(at::kLong);
  return {rows_before_heads(output), logsumexp, at::empty({}, number), at::empty({}, number)};
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
  const int64_t rows = query.size(2);
  TORCH_CHECK(logsumexp.dim() == 3 && logsumexp.size(2) >= rows,
              "the gradient of attention was asked for with a logsumexp of sizes ",
              logsumexp.sizes(), ", and it needs one for each of ", rows,
              " queries; call the forward with compute_log_sumexp=True");
  const std::optional<at::Tensor> mask =
      bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
  auto [query_grad, key_grad, value_grad] = gradients(
      grad, query, key, value, output, logsumexp.narrow(2, 0, rows), dropout, causal, mask, scale);
  return {query_grad, key_grad, value_grad, at::Tensor()};
}

// ---- _scaled_dot_product_flash_attention

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
           at::Tensor, at::Tensor>
flash_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                double dropout, bool causal, bool returns_mask, std::optional<double> scale) {
  TORCH_CHECK(!returns_mask,
              "flash attention was asked for with return_debug_mask=True, and this device's kernel "
              "has no dropout mask; leave it out");
  auto [output, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
      query, key, value, dropout, causal, std::nullopt, scale);
  const auto number = query.options().dtype(at::kUInt64);
  return {laid_out_like(output, query),
          sums.to(at::kFloat).contiguous(),
          at::Tensor(),
          at::Tensor(),
          query.size(2),
          key.size(2),
          at::empty({2}, number),
          at::empty({}, number),
          at::empty({0}, query.options())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_attention_backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& output, const at::Tensor& logsumexp, const at::Tensor&, const at::Tensor&,
    const c10::SymInt&, const c10::SymInt&, double dropout, bool causal, const at::Tensor&,
    const at::Tensor&, std::optional<double> scale) {
  auto [query_grad, key_grad, value_grad] =
      gradients(grad, query, key, value, output, logsumexp, dropout, causal, std::nullopt, scale);
  return {laid_out_like(query_grad, query), laid_out_like(key_grad, key),
          laid_out_like(value_grad, value)};
}

// Above autograd: the derivative is that of the called operator.
std::tuple<at::Tensor, at::Tensor> attention_with_autograd(
    c10::DispatchKeySet keys, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, double dropout, bool causal, const std::optional<at::Tensor>& mask,
    std::optional<double> scale) {
  if (C10_UNLIKELY(is_wrapped(query) && !mask.has_value() &&
                   query.sym_size(1) == key.sym_size(1))) {
    auto results = at::_ops::_scaled_dot_product_flash_attention::call(
        query, key, value, dropout, causal, /*return_debug_mask=*/false, scale);
    return {std::get<0>(results), std::get<1>(results)};
  }
  return at::_ops::_scaled_dot_product_flash_attention_for_cpu::redispatch(
      generated_autograd(keys), query, key, value, dropout, causal, mask, scale);
}

}  // namespace

OUTBOARD_ROUTED("_scaled_dot_product_efficient_attention", efficient_attention)
OUTBOARD_ROUTED("_scaled_dot_product_efficient_attention_backward", efficient_attention_backward)
OUTBOARD_ROUTED("_scaled_dot_product_flash_attention", flash_attention)
OUTBOARD_ROUTED("_scaled_dot_product_flash_attention_backward", flash_attention_backward)

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  YieldingLibrary(library, c10::DispatchKey::AutogradPrivateUse1)
      .impl("_scaled_dot_product_flash_attention_for_cpu", TORCH_FN(attention_with_autograd));
}

}  // namespace outboard::cpu_kernels
