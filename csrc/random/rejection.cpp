// poisson, binomial, _standard_gamma and _sample_dirichlet: distributions with an unbounded number
// of draws per value (kernels/random_numbers/rejection.cl).
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "dispatch/router.h"
#include "random/cpu_random.h"
#include "tensors/dense.h"

namespace outboard::random {
namespace {

// One block of words per element.
constexpr int64_t kBlockWords = 4;

// The smallest positive normal number, the lower limit of gamma variables in their dtype.
double smallest_of(at::ScalarType type) {
  return type == at::kFloat ? static_cast<double>(std::numeric_limits<float>::min())
                            : std::numeric_limits<double>::min();
}

// Fills `out` by chunks: compute(run, values, first, last) gets the elements of the first and the
// last of one or two `inputs`, expanded to its size.
template <class Compute>
at::Tensor sample(at::Tensor out, at::TensorList inputs, const OptionalGenerator& generator,
                  const Compute& compute) {
  if (out.numel() == 0) return out;
  const c10::DeviceIndex device = out.device().index();
  const PhiloxState state = reserve_philox(generator, device, kRejectionBlocks);
  CpuCall call(device);
  std::array<at::Tensor, 2> hosts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor input = on_host(call, inputs[i], Access::kRead).expand(out.sizes());
    hosts[i] = packed(input, at::kDouble);
  }
  const auto* first_input = hosts[0].const_data_ptr<double>();
  const auto* last_input = hosts[inputs.size() - 1].const_data_ptr<double>();
  const at::Tensor out_host = on_host(call, out, Access::kWrite);
  write_values<double>(out_host, [&](double* values) {
    for_each_chunk<kBlockWords>(state, out.numel(),
                                [&](int64_t first, int64_t count, const uint32_t* words, int64_t) {
                                  compute(RejectionRun{state, first, count, words}, values + first,
                                          first_input + first, last_input + first);
                                });
  });
  call.finish();
  return out;
}

at::Tensor poisson(const at::Tensor& self, OptionalGenerator generator) {
  check_floating(self, "poisson_cpu");
  at::Tensor out = at::empty(self.sizes(), self.options());
  return sample(out, {self}, generator,
                [](const RejectionRun& run, double* values, const double* rates, const double*) {
                  TORCH_CHECK(poisson_values(run, rates, values),
                              "invalid Poisson rate, expected rate to be non-negative");
                });
}

at::Tensor standard_gamma(const at::Tensor& self, OptionalGenerator generator) {
  check_floating(self, "gamma_cpu", /*halves=*/false);
  const double smallest = smallest_of(self.scalar_type());
  at::Tensor out = at::empty(self.sizes(), self.options());
  return sample(out, {self}, generator,
                [&](const RejectionRun& run, double* values, const double* alphas, const double*) {
                  gamma_values(run, alphas, smallest, values);
                });
}

at::Tensor binomial(const at::Tensor& count, const at::Tensor& prob, OptionalGenerator generator) {
  TORCH_CHECK_VALUE(
      at::isFloatingType(count.scalar_type()),
      "binomial only supports floating-point dtypes for count, got: ", count.scalar_type());
  TORCH_CHECK_VALUE(
      at::isFloatingType(prob.scalar_type()),
      "binomial only supports floating-point dtypes for prob, got: ", prob.scalar_type());
  check_has_storage(count);
  check_has_storage(prob);
  // As in PyTorch's CPU kernel, the result is resized if only `prob` has the full shape.
  at::Tensor out = at::empty(count.sizes(), count.options());
  at::TensorIteratorConfig().add_output(out).add_const_input(count).add_const_input(prob).build();
  check_floating(count, "binomial_cpu", /*halves=*/false);
  return sample(
      out, {count, prob}, generator,
      [](const RejectionRun& run, double* values, const double* counts,
         const double* probabilities) { binomial_values(run, counts, probabilities, values); });
}

at::Tensor sample_dirichlet(const at::Tensor& self, OptionalGenerator generator) {
  check_floating(self, "dirichlet", /*halves=*/false);
  at::Tensor out = at::empty(self.sizes(), self.options());
  const int64_t elements = out.numel();
  if (elements == 0) return out;
  const bool single = self.scalar_type() == at::kFloat;
  const double smallest = smallest_of(self.scalar_type());
  const double largest =
      single ? static_cast<double>(std::nextafter(1.0f, 0.0f)) : std::nextafter(1.0, 0.0);
  const PhiloxState state = reserve_philox(generator, self.device().index(), kRejectionBlocks);
  CpuCall call(self.device().index());
  const at::Tensor self_host = packed(on_host(call, self, Access::kRead), at::kDouble);
  const auto* alphas = self_host.const_data_ptr<double>();
  const std::unique_ptr<double[]> exponents(new double[static_cast<std::size_t>(elements)]);
  const int64_t length = self.dim() == 0 ? 1 : self.size(-1);
  const int64_t grain = std::max<int64_t>(1, 4096 / length);
  write_values<double>(on_host(call, out, Access::kWrite), [&](double* factors) {
    for_each_chunk<kBlockWords>(state, elements,
                                [&](int64_t first, int64_t count, const uint32_t* words, int64_t) {
                                  gamma_parts({state, first, count, words}, alphas + first,
                                              factors + first, exponents.get() + first);
                                });
    at::parallel_for(0, elements / length, grain, [&](int64_t begin, int64_t end) {
      dirichlet_values(end - begin, length, smallest, largest, exponents.get() + begin * length,
                       factors + begin * length);
    });
  });
  call.finish();
  return out;
}

OUTBOARD_ROUTED("poisson", poisson)
OUTBOARD_ROUTED("binomial", binomial)
OUTBOARD_ROUTED("_standard_gamma", standard_gamma)
OUTBOARD_ROUTED("_sample_dirichlet", sample_dirichlet)

}  // namespace
}  // namespace outboard::random
