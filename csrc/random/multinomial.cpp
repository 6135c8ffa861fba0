// multinomial: indices drawn by the weights of a row, with or without replacement.
#include <ATen/Dispatch.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "random/distributions.h"
#include "random/cpu_random.h"
#include "dispatch/router.h"

namespace outboard::random {
namespace {

using OptionalGenerator = std::optional<at::Generator>;

// Index of the first category whose cumulative weight exceeds the draw's share of the total. Never
// a category of weight 0.
void sample_with_replacement(const at::Tensor& weights, int64_t samples, const at::Tensor& out,
                             const PhiloxState& state) {
  const int64_t categories = weights.size(-1);
  const int64_t rows = weights.dim() == 1 ? 1 : weights.size(0);
  const ElementView weights_view(weights);
  const ElementView out_view(out);

  std::vector<double> cumulative(static_cast<std::size_t>(rows * categories));
  weights_view.load(0, rows * categories, cumulative.data());
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t i = row * categories; i < (row + 1) * categories; ++i) {
      const double weight = cumulative[i];
      TORCH_CHECK(weight >= 0,
                  "invalid multinomial distribution (encountering probability entry < 0)");
      TORCH_CHECK(weight <= std::numeric_limits<double>::max(),
                  "invalid multinomial distribution (encountering probability entry = infinity or "
                  "NaN)");
      sum += weight;
      cumulative[i] = sum;
    }
    TORCH_CHECK(sum > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  }
  for_each_chunk<2>(
      state, rows * samples, [&](int64_t first, int64_t count, const uint32_t* words, int64_t) {
        int64_t values[kChunkWords / 2];
        for (int64_t i = 0; i < count; ++i) {
          const double* begin = cumulative.data() + (first + i) / samples * categories;
          const double* end = begin + categories;
          const double total = end[-1];
          // Rounding must not reach the total.
          const double share =
              std::min(unit_double(draw_64(words, i)) * total, std::nextafter(total, 0.0));
          values[i] = std::upper_bound(begin, end, share) - begin;
        }
        out_view.store(first, count, values);
      });
}

at::Tensor& multinomial_out(const at::Tensor& self, int64_t samples, bool replacement,
                            OptionalGenerator generator, at::Tensor& out) {
  TORCH_CHECK(out.device() == self.device(), "multinomial arguments must have the same device");
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(
      at::isFloatingType(self.scalar_type()),
      "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(out.scalar_type() == at::kLong,
              "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  const int64_t categories = self.size(-1);
  TORCH_CHECK(replacement || samples <= categories,
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  // More categories than float32 draws can distinguish.
  TORCH_CHECK(categories <= int64_t{1} << 24, "number of categories cannot exceed 2^24");

  if (self.dim() == 1) {
    out.resize_({samples});
  } else {
    out.resize_({self.size(0), samples});
  }
  if (out.numel() == 0) return out;

  if (!replacement || samples == 1) {
    // The smallest of independent exponential variates divided by the weights is at index i with
    // probability weight[i] / sum, and the order of all is a sample without replacement. Here
    // inverted, so that a weight of 0 comes last.
    const bool valid = self.max().lt(std::numeric_limits<float>::infinity()).item<bool>() &&
                       self.min().ge(0).item<bool>();
    TORCH_CHECK(valid, "probability tensor contains either `inf`, `nan` or element < 0");
    TORCH_CHECK(self.sum(-1).eq(0).sum().item<int64_t>() == 0,
                "invalid multinomial distribution (sum of probabilities <= 0)");
    at::Tensor race = at::empty_like(self).exponential_(1, generator);
    at::div_out(race, self, race);
    if (samples == 1) {
      at::argmax_out(out, race, /*dim=*/-1, /*keepdim=*/true);
    } else {
      at::Tensor values = at::empty(out.sizes(), self.options());
      at::topk_out(values, out, race, samples);
    }
    return out;
  }

  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isFloat8Type(self.scalar_type()),
                              "\"multinomial\" not implemented for '", toString(self.scalar_type()),
                              "'");
  TORCH_CHECK(categories > 0, "multinomial expects at least one category");
  const PhiloxState state = reserve_philox(generator, self.device().index(), 1);
  CpuCall call(self.device().index());
  const at::Tensor weights_host = on_host(call, self, Access::kRead);
  const at::Tensor out_host = on_host(call, out, Access::kWrite);
  sample_with_replacement(weights_host, samples, out_host, state);
  call.finish();
  return out;
}

at::Tensor multinomial(const at::Tensor& self, int64_t samples, bool replacement,
                       OptionalGenerator generator) {
  at::Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  multinomial_out(self, samples, replacement, std::move(generator), out);
  return out;
}

OUTBOARD_ROUTED("multinomial.out", multinomial_out)
OUTBOARD_ROUTED("multinomial", multinomial)

}  // namespace
}  // namespace outboard::random
