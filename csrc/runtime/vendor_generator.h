// Generators of a class that a vendor registered with REGISTER_GENERATOR_PRIVATEUSE1.
#pragma once

#include <ATen/core/Generator.h>

#include "runtime/generator.h"

namespace outboard {

bool has_vendor_generator();

// What the vendor's function makes for `device`, which is no -1. Raises RuntimeError if that is of
// another device, or would send operators to another one.
at::Generator make_vendor_generator(c10::DeviceIndex device);

// A state for the kit's kernels, for one operator that uses the counters of `draws` offsets:
// - of a class derived from at::CPUGeneratorImpl, its next 64 random bits, and offset 0;
// - of any other, its seed and its offset, which moves on by `draws`.
// Raises NotImplementedError if the class has no offset. The caller holds the generator's mutex_.
PhiloxState reserve_from_vendor(c10::GeneratorImpl& generator, uint64_t draws);

}  // namespace outboard
