// rrelu_with_noise in its three forms: a leaky rectifier with a random slope in training.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>

#include <limits>

#include "random/distributions.h"
#include "random/cpu_random.h"
#include "dispatch/router.h"

namespace outboard::random {
namespace {

using OptionalGenerator = std::optional<at::Generator>;

// Noise is a slope from [lower, upper) for elements that are not positive, else 1; the output is
// input * noise.
template <class T>
void rrelu_on_host(const at::Tensor& input, const at::Tensor& noise, const at::Tensor& output,
                   double lower, double upper, const PhiloxState& state) {
  constexpr int64_t kWords = sizeof(T) / sizeof(uint32_t);
  constexpr int64_t kElements = kChunkWords / kWords;
  const ElementView input_view(input);
  const ElementView noise_view(noise);
  const ElementView output_view(output);
  for_each_chunk<kWords>(
      state, input_view.size(), [&](int64_t first, int64_t count, const uint32_t* words, int64_t) {
        T values[kElements];
        T slopes[kElements];
        input_view.load(first, count, values);
        for (int64_t i = 0; i < count; ++i) {
          T unit;
          if constexpr (kWords == 1) {
            unit = unit_float(words[i]);
          } else {
            unit = unit_double(draw_64(words, i));
          }
          const T slope = unit * static_cast<T>(upper - lower) + static_cast<T>(lower);
          slopes[i] = values[i] <= 0 ? slope : T(1);
        }
        // Noise rounded to its dtype, since the backward multiplies with it.
        noise_view.store(first, count, slopes);
        noise_view.load(first, count, slopes);
        for (int64_t i = 0; i < count; ++i) values[i] *= slopes[i];
        output_view.store(first, count, values);
      });
}

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
  TORCH_CHECK_NOT_IMPLEMENTED(
      type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16,
      "\"rrelu_with_noise_out_cpu\" not implemented for '", toString(type), "'");
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
  at::native::resize_output(out, self.sizes());
  at::assert_no_internal_overlap(noise);
  at::assert_no_internal_overlap(out);
  if (self.numel() == 0) return out;
  const PhiloxState state = reserve_philox(generator, self.device().index(), 1);
  CpuCall call(self.device().index());
  const at::Tensor input_host = on_host(call, self, Access::kRead);
  const at::Tensor noise_host = on_host(call, noise, Access::kWrite);
  const at::Tensor output_host = on_host(call, out, Access::kWrite);
  if (type == at::kDouble) {
    rrelu_on_host<double>(input_host, noise_host, output_host, low, high, state);
  } else {
    rrelu_on_host<float>(input_host, noise_host, output_host, low, high, state);
  }
  call.finish();
  return out;
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
