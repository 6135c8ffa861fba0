// Operators of SyncBatchNorm on accelerators, as decompositions, since CPU kernels do not exist.
// Statistics are per channel, dimension 1, in float for narrower inputs.
#include <ATen/core/Tensor.h>
#include <ATen/ops/var_mean.h>

#include <optional>
#include <tuple>
#include <vector>

#include "dispatch/router.h"

namespace outboard {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

bool exists(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

void check_input(const Tensor& input) {
  TORCH_CHECK(input.dim() >= 2, "synchronized batch normalization takes a tensor of shape (batch, ",
              "channels, ...), and got ", input.sizes());
}

at::ScalarType statistics_dtype(const Tensor& input) {
  return input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16
             ? at::kFloat
             : input.scalar_type();
}

Tensor wide(const Tensor& input) { return input.to(statistics_dtype(input)); }

std::vector<int64_t> all_but_channels(const Tensor& input) {
  std::vector<int64_t> dimensions = {0};
  for (int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

// A tensor of shape (channels), reshaped to broadcast over the input.
Tensor beside(const Tensor& per_channel, const Tensor& input) {
  std::vector<int64_t> shape(input.dim(), 1);
  shape[1] = per_channel.numel();
  return per_channel.to(statistics_dtype(input)).reshape(shape);
}

// Mean and 1 / sqrt(variance + eps), shape (channels) each.
std::tuple<Tensor, Tensor> channel_statistics(const Tensor& input, double eps) {
  check_input(input);
  auto [variance, mean] = at::var_mean(wide(input), all_but_channels(input), /*correction=*/0);
  return {std::move(mean), variance.add_(eps).rsqrt_()};
}

// Statistics of all ranks from those of each, shape (ranks, channels); `counts` (ranks): values per
// channel. Updates the running statistics.
std::tuple<Tensor, Tensor> combined_statistics(const Tensor& input, const Tensor& means,
                                               const Tensor& inverses,
                                               const OptionalTensor& running_mean,
                                               const OptionalTensor& running_var, double momentum,
                                               double eps, const Tensor& counts) {
  const Tensor weights = counts.to(means.scalar_type()).reshape({-1, 1});
  const Tensor total = weights.sum();
  Tensor mean = means.mul(weights).sum(0).div_(total);
  const Tensor variances = inverses.square().reciprocal_().sub_(eps);
  // Variances within ranks and between them.
  const Tensor squares = variances.add_(means.sub(mean).square_()).mul_(weights).sum(0);
  if (exists(running_mean)) running_mean->mul_(1 - momentum).add_(mean, momentum);
  if (exists(running_var)) {
    running_var->mul_(1 - momentum).add_(squares.div(total.sub(1)), momentum);
  }
  Tensor inverse = squares.div(total).add_(eps).rsqrt_();
  return {std::move(mean), std::move(inverse)};
}

std::tuple<Tensor, Tensor> combined_of_equal_counts(const Tensor& input, const Tensor& means,
                                                    const Tensor& inverses,
                                                    const OptionalTensor& running_mean,
                                                    const OptionalTensor& running_var,
                                                    double momentum, double eps, int64_t count) {
  const Tensor counts = means.new_full({means.size(0)}, static_cast<double>(count));
  return combined_statistics(input, means, inverses, running_mean, running_var, momentum, eps,
                             counts);
}

Tensor normalized(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                  const Tensor& mean, const Tensor& inverse, double /*eps*/) {
  check_input(input);
  Tensor scale = beside(inverse, input);
  if (exists(weight)) scale = scale.mul(beside(*weight, input));
  Tensor result = wide(input).sub(beside(mean, input)).mul_(scale);
  if (exists(bias)) result.add_(beside(*bias, input));
  return result.to(input.scalar_type());
}

// Sums per channel of the gradient and of gradient * (input - mean), and the gradients of weight
// and bias; undefined if not requested.
std::tuple<Tensor, Tensor, Tensor, Tensor> reduced_gradients(
    const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& inverse,
    const OptionalTensor& weight, bool input_wanted, bool weight_wanted, bool bias_wanted) {
  check_input(input);
  const std::vector<int64_t> dimensions = all_but_channels(input);
  const Tensor gradient = wide(grad);
  Tensor sum = gradient.sum(dimensions);
  Tensor product = wide(input).sub(beside(mean, input)).mul_(gradient).sum(dimensions);
  Tensor of_weight, of_bias;
  if (weight_wanted) {
    of_weight = product.mul(inverse);
    if (exists(weight)) of_weight = of_weight.to(weight->scalar_type());
  }
  if (bias_wanted)
    of_bias = exists(weight) ? sum.to(weight->scalar_type(), false, true) : sum.clone();
  if (!input_wanted) sum = product = Tensor();
  return {std::move(sum), std::move(product), std::move(of_weight), std::move(of_bias)};
}

// The sums are over all ranks; `counts` (ranks) as above.
Tensor input_gradient(const Tensor& grad, const Tensor& input, const Tensor& mean,
                      const Tensor& inverse, const OptionalTensor& weight, const Tensor& sum,
                      const Tensor& product, const Tensor& counts) {
  check_input(input);
  const Tensor total = counts.sum().to(sum.scalar_type());
  const Tensor along = product.div(total).mul_(inverse.square());
  Tensor scale = beside(inverse, input);
  if (exists(weight)) scale = scale.mul(beside(*weight, input));
  const Tensor result = wide(grad)
                            .sub(beside(sum.div(total), input))
                            .sub_(wide(input).sub(beside(mean, input)).mul_(beside(along, input)))
                            .mul_(scale);
  return result.to(input.scalar_type());
}

OUTBOARD_ROUTED("batch_norm_stats", channel_statistics)
OUTBOARD_ROUTED("batch_norm_gather_stats", combined_of_equal_counts)
OUTBOARD_ROUTED("batch_norm_gather_stats_with_counts", combined_statistics)
OUTBOARD_ROUTED("batch_norm_elemt", normalized)
OUTBOARD_ROUTED("batch_norm_backward_reduce", reduced_gradients)
OUTBOARD_ROUTED("batch_norm_backward_elemt", input_gradient)

}  // namespace
}  // namespace outboard
