// The inner loops of rejection sampling on the host: a chunk of elements
// at a time, vectorized, in plain arrays. The text of
// torch_outboard/kernels/random_numbers/rejection.cl, compiled as C++; there is said which draws an
// element uses.
#pragma once

#include <cstdint>

#include "random/chunk.h"
#include "runtime/generator.h"

namespace outboard::random {

// Offsets of the generator that an operator reserves.
constexpr uint64_t kRejectionBlocks = 64;

constexpr int64_t kRejectionElements = kChunkWords / 4;

// The elements [first, first + count) of chunk first / kRejectionElements, a block of words for
// each; words[4 * i .. 4 * i + 4) is the first block of the i-th of them.
struct RejectionRun {
  const PhiloxState& state;
  int64_t first;
  int64_t count;
  const uint32_t* words;
};

// `values` may be the parameters' array.

// Whether all rates were at least 0; otherwise values are undefined.
bool poisson_values(const RejectionRun& run, const double* rates, double* values);
void binomial_values(const RejectionRun& run, const double* counts, const double* probabilities,
                     double* values);
// At least `smallest`, also where alpha is no positive number.
void gamma_values(const RejectionRun& run, const double* alphas, double smallest, double* values);
// Gamma variables as factors[i] * exp(exponents[i]).
void gamma_parts(const RejectionRun& run, const double* alphas, double* factors, double* exponents);
// The shares of `rows` rows of `length` gamma variables in the sums of their rows, each between
// `smallest` and `largest`, in the place of the factors.
void dirichlet_values(int64_t rows, int64_t length, double smallest, double largest,
                      const double* exponents, double* factors);

}  // namespace outboard::random
