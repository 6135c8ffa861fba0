// random_ in its three forms, randperm and multinomial.
#include <ATen/Dispatch.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/nextafter.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "dispatch/router.h"
#include "random/cpu_random.h"
#include "random/distributions.h"

namespace outboard::random {
namespace {

// Integers in [from, from + range) in the tensor's dtype; range 0 means 2^64.
void fill_integers(const at::Tensor& self, uint64_t range, int64_t from,
                   const OptionalGenerator& generator) {
  const auto base = static_cast<uint64_t>(from);
  const auto small = [&](const uint32_t* words, int64_t, int64_t count, int64_t* values) {
    for (int64_t i = 0; i < count; ++i) {
      values[i] = static_cast<int64_t>(base + below_small(words[i], static_cast<uint32_t>(range)));
    }
  };
  const auto large = [&](const uint32_t* words, int64_t, int64_t count, int64_t* values) {
    for (int64_t i = 0; i < count; ++i) {
      values[i] = static_cast<int64_t>(base + below_large(draw_64(words, i), range));
    }
  };
  draw_into(self, generator, [&](const at::Tensor& host, const PhiloxState& state) {
    if (range != 0 && range <= kSmallRange) {
      fill<1, int64_t>(host, state, small);
    } else {
      fill<2, int64_t>(host, state, large);
    }
  });
}

template <class>
struct RandomFromToKernel {
  void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t from,
                  const OptionalGenerator& generator) const {
    fill_integers(iter.tensor(0), range, from, generator);
  }
  // All values of int64.
  void operator()(at::TensorIteratorBase& iter, const OptionalGenerator& generator) const {
    const at::ScalarType type = iter.dtype();
    TORCH_CHECK_NOT_IMPLEMENTED(
        at::isIntegralType(type, /*includeBool=*/false) || type == at::kDouble ||
            type == at::kFloat || type == at::kBFloat16,
        "\"random_full_64_bits_range_kernel_cpu\" not implemented for '", toString(type), "'");
    TORCH_CHECK(!at::isIntegralType(type, false) || type == at::kLong,
                "random_full_64_bits_range_kernel_cpu handles only int64, double, float and "
                "bfloat16");
    fill_integers(iter.tensor(0), 0, 0, generator);
  }
};

// From 0 to the largest value of the dtype; in floating point, to the largest integer up to which
// all are representable.
template <class>
struct RandomKernel {
  void operator()(at::TensorIteratorBase& iter, const OptionalGenerator& generator) const {
    uint64_t range = 0;
    AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, iter.dtype(),
                               "random_kernel_cpu", [&] {
                                 constexpr int digits = std::numeric_limits<scalar_t>::digits;
                                 range = uint64_t{1} << digits;
                                 if (!std::numeric_limits<scalar_t>::is_integer) ++range;
                               });
    fill_integers(iter.tensor(0), range, 0, generator);
  }
};

namespace templates = at::native::templates;

at::Tensor& random_(at::Tensor& self, OptionalGenerator generator) {
  return templates::random_impl<RandomKernel, void>(self, std::move(generator));
}
at::Tensor& random_from(at::Tensor& self, int64_t from, std::optional<int64_t> to,
                        OptionalGenerator generator) {
  return templates::random_from_to_impl<RandomFromToKernel, void>(self, from, to,
                                                                  std::move(generator));
}
at::Tensor& random_to(at::Tensor& self, int64_t to, OptionalGenerator generator) {
  return random_from(self, 0, to, std::move(generator));
}

// ---- randperm

// The numbers 0 .. n - 1 in the order of their draws; equal draws in the order of the numbers.
at::Tensor& randperm_out(int64_t n, OptionalGenerator generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::native::check_supported_max_int_with_precision(
      n, at::empty({0}, out.options().device(at::kCPU)));
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, out.scalar_type(), "randperm", [] {});
  at::native::resize_output(out, {n});
  if (n == 0) return out;
  draw_into(out, generator, [&](const at::Tensor& host, const PhiloxState& state) {
    const at::Tensor keys = at::empty({n}, at::kLong);
    fill<2, int64_t>(keys, state,
                     [](const uint32_t* words, int64_t, int64_t count, int64_t* values) {
                       // Draws are unsigned and keys signed: this preserves the order.
                       for (int64_t i = 0; i < count; ++i) {
                         values[i] = static_cast<int64_t>(draw_64(words, i) ^ (uint64_t{1} << 63));
                       }
                     });
    host_tensor(host).copy_(keys.argsort(/*stable=*/true));
  });
  return out;
}

OUTBOARD_ROUTED("random_", random_)
OUTBOARD_ROUTED("random_.from", random_from)
OUTBOARD_ROUTED("random_.to", random_to)
OUTBOARD_ROUTED("randperm.generator_out", randperm_out)

// ---- multinomial

// Index of the first category whose cumulative weight exceeds the draw's share of the total. Never
// a category of weight 0.
void sample_with_replacement(const at::Tensor& weights, OptionalGenerator generator,
                             at::Tensor& out) {
  TORCH_CHECK(weights.min().ge(0).item<bool>(),
              "invalid multinomial distribution (encountering probability entry < 0)");
  TORCH_CHECK(
      weights.max().lt(std::numeric_limits<double>::infinity()).item<bool>(),
      "invalid multinomial distribution (encountering probability entry = infinity or NaN)");
  const at::Tensor cumulative = weights.to(at::kDouble).cumsum(-1);
  const at::Tensor total = cumulative.narrow(-1, cumulative.size(-1) - 1, 1);
  TORCH_CHECK(total.min().gt(0).item<bool>(),
              "invalid multinomial distribution (sum of probabilities <= 0)");
  const at::Tensor draws =
      at::empty(out.sizes(), cumulative.options()).uniform_(0, 1, std::move(generator));
  // Rounding must not reach the total.
  const at::Tensor shares =
      at::minimum(draws.mul_(total), at::nextafter(total, at::zeros_like(total)));
  at::searchsorted_out(out, cumulative, shares, /*out_int32=*/false, /*right=*/true);
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
  sample_with_replacement(self, std::move(generator), out);
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
