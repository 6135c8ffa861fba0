// Random operators for compiled CPU code: of states reserved before, repeatable. In the namespace
// outboard_compiled, for compiled graphs and for packages from other processes:
//   philox_host_states(int count, int index, int run) -> Tensor
//     Seed and offset of `count` operators, reserved from the default generator of device `index`
//     (-1: the current one): int64 of shape (count, 2), on the CPU. `run` differs between the calls
//     of a graph, so that they are not merged.
//   philox_below(SymInt[] size, Tensor states, int draw, int threshold) -> Tensor
//     The draws of bernoulli_, bool: true if the word of an element is below `threshold`, which is
//     p * 2^32. On the device of `states`; uses its row `draw`.
//   philox_uniform(SymInt[] size, Tensor states, int draw) -> Tensor
//     The draws of uniform_ in [0, 1), float32.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "random/cpu_random.h"
#include "runtime/driver/device.h"
#include "runtime/generator.h"

namespace outboard::random {
namespace {

at::Tensor philox_host_states(int64_t count, int64_t index, int64_t /*run*/) {
  TORCH_CHECK(count >= 0, "states of ", count, " operators were asked for; it is a count");
  const auto device = index < 0 ? current_device() : static_cast<c10::DeviceIndex>(index);
  at::Tensor states = at::empty({count, 2}, at::kLong);
  auto* next = states.mutable_data_ptr<int64_t>();
  for (int64_t draw = 0; draw < count; ++draw) {
    const PhiloxState state = reserve_philox(std::nullopt, device, 1);
    *next++ = static_cast<int64_t>(state.seed);
    *next++ = static_cast<int64_t>(state.offset);
  }
  return states;
}

PhiloxState state_of(const at::Tensor& states, int64_t draw) {
  TORCH_CHECK(states.scalar_type() == at::kLong && states.dim() == 2 && states.size(1) == 2,
              "states of draws are int64 of sizes (count, 2), not ", states.scalar_type(), " of ",
              states.sizes());
  TORCH_CHECK(0 <= draw && draw < states.size(0), "draw ", draw, " was asked for, of ",
              states.size(0), " states");
  const at::Tensor host = states.select(0, draw).cpu().contiguous();
  const auto* values = host.const_data_ptr<int64_t>();
  return {static_cast<uint64_t>(values[0]), static_cast<uint64_t>(values[1])};
}

at::Tensor philox_below(at::IntArrayRef size, const at::Tensor& states, int64_t draw,
                        int64_t threshold) {
  at::Tensor out = at::empty(size, at::kBool);
  fill<1, uint8_t>(out, state_of(states, draw),
                   [&](const uint32_t* words, int64_t rounded, int64_t, uint8_t* values) {
                     below_values(words, rounded, static_cast<uint64_t>(threshold), values);
                   });
  return out.to(states.device());
}

at::Tensor philox_uniform(at::IntArrayRef size, const at::Tensor& states, int64_t draw) {
  at::Tensor out = at::empty(size, at::kFloat);
  fill<1, float>(out, state_of(states, draw),
                 [&](const uint32_t* words, int64_t rounded, int64_t, float* values) {
                   uniform_values(words, rounded, 1.0f, 0.0f, 1.0f, values);
                 });
  return out.to(states.device());
}

TORCH_LIBRARY_FRAGMENT(outboard_compiled, library) {
  constexpr auto kKey = c10::DispatchKey::CompositeExplicitAutograd;
  library.def("philox_host_states(int count, int index, int run) -> Tensor",
              {at::Tag::nondeterministic_seeded});
  library.def("philox_below(SymInt[] size, Tensor states, int draw, int threshold) -> Tensor");
  library.def("philox_uniform(SymInt[] size, Tensor states, int draw) -> Tensor");
  library.impl("philox_host_states", kKey, &philox_host_states);
  library.impl("philox_below", kKey, &philox_below);
  library.impl("philox_uniform", kKey, &philox_uniform);
}

}  // namespace
}  // namespace outboard::random
