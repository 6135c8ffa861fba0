// Random operators for compiled CPU code: of states reserved before, repeatable.
#pragma once

#include "runtime/export.h"

namespace outboard::random {

// Defines them in the namespace outboard_compiled, for compiled graphs and for packages from other
// processes:
//   philox_host_states(int count, int index, int run) -> Tensor
//     Seed and offset of `count` operators, reserved from the default generator of device `index`
//     (-1: the current one): int64 of shape (count, 2), on the CPU. `run` differs between the calls
//     of a graph, so that they are not merged.
//   philox_below(SymInt[] size, Tensor states, int draw, int threshold) -> Tensor
//     The draws of bernoulli_, bool: true if the word of an element is below `threshold`, which is
//     p * 2^32. On the device of `states`; uses its row `draw`.
//   philox_uniform(SymInt[] size, Tensor states, int draw) -> Tensor
//     The draws of uniform_ in [0, 1), float32.
OUTBOARD_API void register_graph_draws();

}  // namespace outboard::random
