// Into which passes a discrete Fourier transform falls: the factors of its length.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>

namespace outboard {

// The radices of the passes for a transform of length n, in their order; empty where a prime factor
// is too large for a pass.
c10::SmallVector<int64_t, 16> fourier_radices(int64_t n);

}  // namespace outboard
