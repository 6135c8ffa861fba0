// A vendor's attention: scaled_dot_product_attention chooses it for the calls that it supports, and
// torch_outboard's for others. The kernels call PyTorch's operators, so that they run on every
// device.
#include <ATen/ATen.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <limits>
#include <tuple>

namespace {

using namespace at::native;  // the names of the stubs
using at::Tensor;

// ---- The choice

int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value,
               const std::optional<Tensor>& mask, double dropout, bool is_causal,
               std::optional<double> scale, bool enable_gqa) {
  const bool can_serve =
      query.dim() == 4 && dropout == 0 && !enable_gqa && query.scalar_type() != at::kDouble;
  if (can_serve && at::globalContext().userEnabledOverrideableSDP()) {
    return static_cast<int64_t>(at::SDPBackend::overrideable);
  }
  return _fused_sdp_choice_cpp(query, key, value, mask, dropout, is_causal, scale, enable_gqa);
}

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose)

// ---- The kernels

// Shapes: query (N, H, L, E), key (N, H, S, E), value (N, H, S, V), the result (N, H, L, S).
Tensor scores(const Tensor& query, const Tensor& key, const Tensor& bias, bool is_causal,
              double scale) {
  Tensor result = at::matmul(query, key.transpose(-2, -1)) * scale;
  if (is_causal) {
    const Tensor hidden =
        at::ones({query.size(-2), key.size(-2)}, query.options().dtype(at::kBool)).triu(1);
    result = result.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  return bias.defined() ? result + bias : result;
}

double scale_of(const Tensor& query, std::optional<double> scale) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>
attention(const Tensor& query, const Tensor& key, const Tensor& value,
          const std::optional<Tensor>& bias, double, bool is_causal, bool,
          std::optional<double> scale) {
  const Tensor s = scores(query, key, bias.value_or(Tensor()), is_causal, scale_of(query, scale));
  const Tensor logsumexp = at::logsumexp(s, -1);
  const Tensor result = at::matmul(at::exp(s - logsumexp.unsqueeze(-1)), value);
  // Results for dropout and for sequences of many lengths stay undefined.
  return {result,       logsumexp, Tensor(), Tensor(), query.size(-2),
          key.size(-2), Tensor(),  Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& gradient, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& bias, std::array<bool, 4> wanted, const Tensor& result, const Tensor& logsumexp,
    const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double, bool is_causal, const Tensor&,
    const Tensor&, std::optional<double> scale) {
  const double factor = scale_of(query, scale);
  const Tensor p = at::exp(scores(query, key, bias, is_causal, factor) - logsumexp.unsqueeze(-1));
  const Tensor of_p = at::matmul(gradient, value.transpose(-2, -1));
  const Tensor of_s = p * (of_p - (gradient * result).sum(-1, /*keepdim=*/true));
  return {wanted[0] ? at::matmul(of_s, key) * factor : Tensor(),
          wanted[1] ? at::matmul(of_s.transpose(-2, -1), query) * factor : Tensor(),
          wanted[2] ? at::matmul(p.transpose(-2, -1), gradient) : Tensor(),
          wanted[3] ? at::sum_to(of_s, bias.sizes()) : Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_scaled_dot_product_fused_attention_overrideable", &attention);
  library.impl("_scaled_dot_product_fused_attention_overrideable_backward", &attention_backward);
}

}  // namespace
