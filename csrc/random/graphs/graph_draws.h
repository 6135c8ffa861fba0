// Operators that code for the CPU calls for random numbers: of states that were reserved before, as
// often as is wanted.
#pragma once

#include "runtime/export.h"

namespace outboard::random {

// Defines them, in the namespace outboard_compiled, for graphs that this process compiles and for
// packages that another one has:
//   philox_host_states(int count, int index, int run) -> Tensor
//     Seed and offset of `count` operators, reserved of the default generator of a device, of the
//     current one if `index` is -1: int64 of sizes (count, 2), on the CPU. `run` is another number
//     for each call in a graph, lest two are taken for the same.
//   philox_below(SymInt[] size, Tensor states, int draw, int threshold) -> Tensor
//     What bernoulli_ draws, bool: whether the word of an element is below `threshold`, which is
//     p * 2^32. On the device of `states`, of which row `draw` is taken.
//   philox_uniform(SymInt[] size, Tensor states, int draw) -> Tensor
//     What uniform_ draws in [0, 1), float32.
OUTBOARD_API void register_graph_draws();

}  // namespace outboard::random
