#include "aten/random/rejection_values.h"

#include <cmath>
#include <cstring>

// Contraction into fused multiply-adds stays off, for the values that devices compute, too.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("O3", "no-trapping-math", "fp-contract=off")
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OUTBOARD_CLONES __attribute__((flatten, target_clones("avx512f", "avx2", "default")))
#else
#define OUTBOARD_CLONES
#endif

#include "aten/random/philox.h"

namespace outboard::random {
namespace {

// What the text uses of OpenCL C.
using uint = uint32_t;
using ulong = uint64_t;
using std::floor;
using std::sqrt;

inline ulong as_ulong(double value) {
  ulong bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline double as_double(ulong bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline PhiloxBlock philox(ulong block, ulong seed, ulong offset) {
  return philox4x32_10({static_cast<uint>(block), static_cast<uint>(block >> 32),
                        static_cast<uint>(offset), static_cast<uint>(offset >> 32)},
                       static_cast<uint>(seed), static_cast<uint>(seed >> 32));
}

#define REJECTION_WORDS PhiloxBlock
#include "../../../torch_outboard/kernels/rejection.cl"

static_assert(REJECTION_BLOCKS == kRejectionBlocks);

// Calls each(i, first block, later draws) for the elements of a run.
template <class Each>
OUTBOARD_CLONES
void for_each_element(const PhiloxState& state, int64_t first, int64_t count, const uint32_t* words,
                      const Each& each) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t* block = words + 4 * i;
    each(i, PhiloxBlock{block[0], block[1], block[2], block[3]},
         rejection_draws{static_cast<ulong>(first + i), state.seed, state.offset});
  }
}

}  // namespace

OUTBOARD_CLONES
bool poisson_values(const PhiloxState& state, int64_t first, int64_t count, const uint32_t* words,
                    const double* rates, double* values) {
  bool valid = true;
  for_each_element(state, first, count, words,
                   [&](int64_t i, PhiloxBlock block, const rejection_draws& draws) {
                     if (rates[i] >= 0) {
                       values[i] = rejection_poisson(rates[i], block, draws);
                     } else {
                       valid = false;
                     }
                   });
  return valid;
}

OUTBOARD_CLONES
void binomial_values(const PhiloxState& state, int64_t first, int64_t count, const uint32_t* words,
                     const double* counts, const double* probabilities, double* values) {
  for_each_element(state, first, count, words,
                   [&](int64_t i, PhiloxBlock block, const rejection_draws& draws) {
                     values[i] = rejection_binomial(counts[i], probabilities[i], block, draws);
                   });
}

OUTBOARD_CLONES
void gamma_values(const PhiloxState& state, int64_t first, int64_t count, const uint32_t* words,
                  const double* alphas, double smallest, double* values) {
  for_each_element(
      state, first, count, words, [&](int64_t i, PhiloxBlock block, const rejection_draws& draws) {
        values[i] = rejection_gamma_value(rejection_gamma(alphas[i], block, draws), smallest);
      });
}

OUTBOARD_CLONES
void gamma_parts(const PhiloxState& state, int64_t first, int64_t count, const uint32_t* words,
                 const double* alphas, double* factors, double* exponents) {
  for_each_element(state, first, count, words,
                   [&](int64_t i, PhiloxBlock block, const rejection_draws& draws) {
                     const rejection_gamma_parts parts = rejection_gamma(alphas[i], block, draws);
                     factors[i] = parts.factor;
                     exponents[i] = parts.exponent;
                   });
}

OUTBOARD_CLONES
void dirichlet_values(int64_t rows, int64_t length, double smallest, double largest,
                      const double* exponents, double* factors) {
  for (int64_t row = 0; row < rows; ++row, exponents += length, factors += length) {
    double top = exponents[0];
    for (int64_t i = 1; i < length; ++i) top = exponents[i] > top ? exponents[i] : top;
    double sum = 0;
    for (int64_t i = 0; i < length; ++i) {
      factors[i] = rejection_gamma_weight({factors[i], exponents[i]}, top);
      sum += factors[i];
    }
    for (int64_t i = 0; i < length; ++i) {
      factors[i] = rejection_share(factors[i], sum, smallest, largest);
    }
  }
}

}  // namespace outboard::random
