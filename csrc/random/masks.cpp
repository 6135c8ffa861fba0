// bernoulli_, bernoulli.out, native_dropout, and rrelu_with_noise in its three forms.
#include <ATen/Dispatch.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <tuple>

#include "dispatch/router.h"
#include "random/cpu_random.h"

namespace outboard::random {
namespace {

// A 32-bit draw is below this threshold with probability p, for p in [0, 1]. Exact: scaling by a
// power of two does not round.
uint64_t threshold_of(double p) { return static_cast<uint64_t>(std::ceil(p * 0x1p32)); }

template <class>
struct BernoulliKernel {
  void operator()(at::Tensor& self, double p, const OptionalGenerator& generator) const {
    AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kBFloat16, at::kHalf, self.scalar_type(),
                               "bernoulli_scalar_cpu_", [] {});
    draw_into(self, generator, [&](const at::Tensor& host, const PhiloxState& state) {
      fill<1, uint8_t>(host, state,
                       [&](const uint32_t* words, int64_t rounded, int64_t, uint8_t* values) {
                         below_values(words, rounded, threshold_of(p), values);
                       });
    });
  }

  void operator()(at::Tensor& self, const at::Tensor& p_anywhere,
                  const OptionalGenerator& generator) const {
    AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kBFloat16, at::kHalf, self.scalar_type(),
                               "bernoulli_tensor_cpu_self_", [] {});
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, p_anywhere.scalar_type(),
                                    "bernoulli_tensor_cpu_p_", [] {});
    const at::Tensor p_device = p_anywhere.to(self.device());
    const at::Tensor p = *at::expand_inplace(self, p_device);
    const PhiloxState state = reserve_philox(generator, self.device().index(), 1);
    CpuCall call(self.device().index());
    const at::Tensor host = on_host(call, self, Access::kWrite);
    const at::Tensor p_host = packed(on_host(call, p, Access::kRead), at::kDouble);
    const auto* probabilities = p_host.const_data_ptr<double>();
    std::atomic<bool> valid{true};
    write_values<uint8_t>(host, [&](uint8_t* values) {
      for_each_chunk<1>(
          state, host.numel(), [&](int64_t first, int64_t count, const uint32_t* words, int64_t) {
            bool in_range = true;
            for (int64_t i = 0; i < count; ++i) {
              const double probability = probabilities[first + i];
              in_range &= probability >= 0 && probability <= 1;
              values[first + i] = static_cast<double>(words[i]) < probability * 0x1p32;
            }
            if (!in_range) valid.store(false, std::memory_order_relaxed);
          });
    });
    TORCH_CHECK(valid.load(), "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  ",
                "bernoulli expects all probabilities to be in [0, 1].");
    call.finish();
  }
};

namespace templates = at::native::templates;

at::Tensor& bernoulli_float(at::Tensor& self, double p, OptionalGenerator generator) {
  return templates::bernoulli_impl_<BernoulliKernel, void>(self, p, std::move(generator));
}
at::Tensor& bernoulli_tensor(at::Tensor& self, const at::Tensor& p, OptionalGenerator generator) {
  return templates::bernoulli_impl_<BernoulliKernel, void>(self, p, std::move(generator));
}
at::Tensor& bernoulli_out(const at::Tensor& self, OptionalGenerator generator, at::Tensor& out) {
  at::assert_no_partial_overlap(out, self);
  return templates::bernoulli_out_impl<BernoulliKernel, void>(out, self, std::move(generator));
}

// ---- native_dropout

// output = kept ? input * scale : input * 0. NaN and infinity propagate, as in a product with a
// mask.
template <class T>
void dropout_values(const T* input, const uint8_t* kept, int64_t count, T scale, T* output) {
  for (int64_t i = 0; i < count; ++i) output[i] = input[i] * (kept[i] != 0 ? scale : T(0));
}

template <class T>
void dropout_on_host(const at::Tensor& input, const at::Tensor& output, const at::Tensor& mask,
                     double keep, double scale, const PhiloxState& state) {
  const at::Tensor packed_input = packed(input, c10::CppTypeToScalarType<T>::value);
  const T* values = packed_input.const_data_ptr<T>();
  auto* mask_values = static_cast<uint8_t*>(mask.mutable_data_ptr());
  const uint64_t threshold = threshold_of(keep);
  write_values<T>(output, [&](T* results) {
    for_each_chunk<1>(state, input.numel(),
                      [&](int64_t first, int64_t count, const uint32_t* words, int64_t rounded) {
                        alignas(64) uint8_t kept[kChunkWords];
                        below_values(words, rounded, threshold, kept);
                        dropout_values(values + first, kept, count, static_cast<T>(scale),
                                       results + first);
                        std::copy_n(kept, count, mask_values + first);
                      });
  });
}

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  if (input.numel() == 0) return {input, at::empty_like(input)};
  if (train.has_value() && !*train) {
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  }
  const double keep = 1.0 - p;
  const double scale = keep == 0 ? 0.0 : 1.0 / keep;
  TORCH_CHECK(0 <= keep && keep <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", keep);
  at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
  const at::ScalarType type = input.scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kHalf && type != at::kBFloat16) {
    mask.bernoulli_(keep);
    return {input.mul(mask).mul_(scale), mask};
  }
  at::Tensor output = at::empty_like(input);
  if (!input.is_contiguous()) {
    const auto [values, bits] = random::native_dropout(input.contiguous(), p, train);
    return {output.copy_(values), mask.copy_(bits)};
  }
  const PhiloxState state = reserve_philox(std::nullopt, input.device().index(), 1);
  CpuCall call(input.device().index());
  const at::Tensor input_host = on_host(call, input, Access::kRead);
  const at::Tensor output_host = on_host(call, output, Access::kWrite);
  const at::Tensor mask_host = on_host(call, mask, Access::kWrite);
  if (type == at::kDouble) {
    dropout_on_host<double>(input_host, output_host, mask_host, keep, scale, state);
  } else {
    dropout_on_host<float>(input_host, output_host, mask_host, keep, scale, state);
  }
  call.finish();
  return {output, mask};
}

OUTBOARD_ROUTED("bernoulli_.float", bernoulli_float)
OUTBOARD_ROUTED("bernoulli_.Tensor", bernoulli_tensor)
OUTBOARD_ROUTED("bernoulli.out", bernoulli_out)
OUTBOARD_ROUTED("native_dropout", native_dropout)

// ---- rrelu_with_noise: a leaky rectifier with a random slope in training. Noise is a slope from
// [lower, upper) for elements that are not positive, else 1; the output is input * noise.

at::Tensor& rrelu_with_noise_out(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                                 const at::Scalar& upper, bool training,
                                 OptionalGenerator generator, at::Tensor& out) {
  TORCH_CHECK(self.sizes() == noise.sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
              " noise.shape = ", noise.sizes());
  for (const at::Tensor* other : {&noise, &out}) {
    TORCH_CHECK(other->device() == self.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                self.device(), " and ", other->device(), "!");
  }
  if (!training) {
    const double slope = (lower.to<double>() + upper.to<double>()) / 2;
    return at::leaky_relu_out(out, self, slope);
  }
  const at::ScalarType type = self.scalar_type();
  check_floating(self, "rrelu_with_noise_out_cpu");
  for (const at::Tensor* other : {&noise, &out}) {
    TORCH_CHECK(other->scalar_type() == type, "expected scalar type ", toString(type),
                " but found ", toString(other->scalar_type()));
  }
  const double low = lower.to<double>();
  const double high = upper.to<double>();
  const double most =
      type == at::kDouble ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  TORCH_CHECK(low <= high && high - low <= most, "rrelu_with_noise: lower is ", low, " and upper ",
              high, "; both have to be finite, and upper not below lower");
  const at::Tensor slopes =
      at::empty(self.sizes(), self.options().dtype(type == at::kDouble ? type : at::kFloat))
          .uniform_(0, 1, std::move(generator))
          .mul_(high - low)
          .add_(low);
  // Rounded to its dtype, since the backward multiplies with it.
  noise.copy_(at::where(self.le(0), slopes, 1.0));
  return at::mul_out(out, self, noise);
}

at::Tensor rrelu_with_noise(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                            const at::Scalar& upper, bool training, OptionalGenerator generator) {
  at::Tensor out = at::empty_like(self, LEGACY_CONTIGUOUS_MEMORY_FORMAT);
  rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), out);
  return out;
}

at::Tensor& rrelu_with_noise_(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                              const at::Scalar& upper, bool training, OptionalGenerator generator) {
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), self);
}

OUTBOARD_ROUTED("rrelu_with_noise.out", rrelu_with_noise_out)
OUTBOARD_ROUTED("rrelu_with_noise", rrelu_with_noise)
OUTBOARD_ROUTED("rrelu_with_noise_", rrelu_with_noise_)

}  // namespace
}  // namespace outboard::random
