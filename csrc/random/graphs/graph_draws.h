// Draws of compiled graphs on the host: of a state that was reserved before, as often as is wanted.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "runtime/export.h"
#include "runtime/generator.h"

namespace outboard::random {

// Fills `out`, a bool tensor of the host, with what bernoulli_ draws: whether the word of an
// element is below `threshold`, which is p * 2^32.
OUTBOARD_API void draw_below(const at::Tensor& out, const PhiloxState& state, uint64_t threshold);

// Fills `out`, a float32 tensor of the host, with what uniform_ draws in [0, 1).
OUTBOARD_API void draw_uniform(const at::Tensor& out, const PhiloxState& state);

}  // namespace outboard::random
