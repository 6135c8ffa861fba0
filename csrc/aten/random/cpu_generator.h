// A CPU generator for kernels that know no other: seeded from the device's state, so that the
// device's seed and offset decide the numbers.
#pragma once

#include <ATen/core/Generator.h>

#include "runtime/export.h"
#include "runtime/generator.h"

namespace outboard {

// A new Mersenne Twister whose whole state is drawn from `state`: 624 Philox words, as those of a
// tensor of 624 float32 elements.
OUTBOARD_API at::Generator cpu_generator_from(const PhiloxState& state);

}  // namespace outboard
