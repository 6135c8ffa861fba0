// The inner loops of rejection sampling on the host: vectorized, one chunk of elements at a time,
// on plain arrays. Compiles torch_outboard/kernels/random_numbers/rejection.cl as C++; that file
// documents the draws of an element.
#pragma once

#include <cstdint>

#include "random/chunk.h"
#include "runtime/generator.h"

namespace outboard::random {

// Generator offsets that an operator reserves.
constexpr uint64_t kRejectionBlocks = 64;

constexpr int64_t kRejectionElements = kChunkWords / 4;

// The elements [first, first + count) of chunk first / kRejectionElements, with a block of words
// each; words[4 * i .. 4 * i + 4) is the first block of the i-th element.
struct RejectionRun {
  const PhiloxState& state;
  int64_t first;
  int64_t count;
  const uint32_t* words;
};

// `values` may alias the parameters.

// False if a rate is below 0; values are then undefined.
bool poisson_values(const RejectionRun& run, const double* rates, double* values);
void binomial_values(const RejectionRun& run, const double* counts, const double* probabilities,
                     double* values);
// At least `smallest`, also if alpha is not positive.
void gamma_values(const RejectionRun& run, const double* alphas, double smallest, double* values);
// Gamma variables as factors[i] * exp(exponents[i]).
void gamma_parts(const RejectionRun& run, const double* alphas, double* factors, double* exponents);
// Shares of `rows` rows of `length` gamma variables in the sums of their rows, between `smallest`
// and `largest`, written over the factors.
void dirichlet_values(int64_t rows, int64_t length, double smallest, double largest,
                      const double* exponents, double* factors);

}  // namespace outboard::random
