#include "random/graphs/graph_draws.h"

#include "random/cpu_random.h"

namespace outboard::random {
namespace {

void check_host_tensor(const at::Tensor& out, at::ScalarType dtype) {
  TORCH_CHECK(out.is_cpu() && out.scalar_type() == dtype,
              "draws of a compiled graph fill a CPU tensor of ", dtype, ", not one of ",
              out.scalar_type(), " on ", out.device());
}

}  // namespace

void draw_below(const at::Tensor& out, const PhiloxState& state, uint64_t threshold) {
  check_host_tensor(out, at::kBool);
  fill<1, uint8_t>(out, state,
                   [&](const uint32_t* words, int64_t rounded, int64_t, uint8_t* values) {
                     below_values(words, rounded, threshold, values);
                   });
}

void draw_uniform(const at::Tensor& out, const PhiloxState& state) {
  check_host_tensor(out, at::kFloat);
  fill<1, float>(out, state, [&](const uint32_t* words, int64_t rounded, int64_t, float* values) {
    uniform_values(words, rounded, 1.0f, 0.0f, 1.0f, values);
  });
}

}  // namespace outboard::random
