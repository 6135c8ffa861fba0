#include "aten/random/cpu_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/_sample_dirichlet.h>
#include <ATen/ops/_standard_gamma.h>
#include <ATen/ops/binomial.h>
#include <ATen/ops/poisson.h>

#include <algorithm>

#include "aten/host_call.h"
#include "aten/random/chunk.h"
#include "aten/router.h"

namespace outboard {

at::Generator cpu_generator_from(const PhiloxState& state) {
  constexpr int64_t kRounded = random::round_to_group(at::MERSENNE_STATE_N);
  uint32_t words[kRounded];
  random::chunk_words(state, 0, kRounded, words);
  at::mt19937_data_pod data;
  data.seed_ = state.seed;
  // As after seeding: the first number asked for makes a new round of words.
  data.left_ = 1;
  data.next_ = 0;
  data.seeded_ = true;
  std::copy_n(words, at::MERSENNE_STATE_N, data.state_.begin());
  at::mt19937 engine;
  engine.set_data(data);
  at::Generator generator = at::detail::createCPUGenerator(state.seed);
  generator.get<at::CPUGeneratorImpl>()->set_engine(engine);
  return generator;
}

namespace {

using OptionalGenerator = std::optional<at::Generator>;

// Rejection sampling with an open number of draws per element: PyTorch's CPU kernels do it, in the
// order of the elements and in one thread.
template <class Sample>
at::Tensor sample_on_cpu(const at::Tensor& self, const OptionalGenerator& generator,
                         const Sample& sample) {
  const PhiloxState state = reserve_philox(generator, self.device().index(), 1);
  HostCall call(self.device().index());
  const at::Tensor result = call.result(sample(call, cpu_generator_from(state)));
  call.finish();
  return result;
}

at::Tensor poisson(const at::Tensor& self, OptionalGenerator generator) {
  return sample_on_cpu(self, generator, [&](HostCall& call, const at::Generator& cpu) {
    return at::poisson(call.map(self, Access::kRead), cpu);
  });
}
at::Tensor binomial(const at::Tensor& count, const at::Tensor& prob, OptionalGenerator generator) {
  return sample_on_cpu(count, generator, [&](HostCall& call, const at::Generator& cpu) {
    return at::binomial(call.map(count, Access::kRead), call.map(prob, Access::kRead), cpu);
  });
}
at::Tensor standard_gamma(const at::Tensor& self, OptionalGenerator generator) {
  return sample_on_cpu(self, generator, [&](HostCall& call, const at::Generator& cpu) {
    return at::_standard_gamma(call.map(self, Access::kRead), cpu);
  });
}
at::Tensor sample_dirichlet(const at::Tensor& self, OptionalGenerator generator) {
  return sample_on_cpu(self, generator, [&](HostCall& call, const at::Generator& cpu) {
    return at::_sample_dirichlet(call.map(self, Access::kRead), cpu);
  });
}

OUTBOARD_ROUTED("poisson", poisson)
OUTBOARD_ROUTED("binomial", binomial)
OUTBOARD_ROUTED("_standard_gamma", standard_gamma)
OUTBOARD_ROUTED("_sample_dirichlet", sample_dirichlet)

}  // namespace
}  // namespace outboard
