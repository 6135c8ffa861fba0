#include "random/cpu_random.h"

#include <cmath>
#include <cstring>

#include "random/distributions.h"

// One version of each loop per instruction set, chosen at load. Contraction to fused multiply-adds
// is off, as on devices, so that all versions give equal values. Functions that are inlined into
// these get the same options.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("O3", "no-trapping-math", "fp-contract=off")
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OUTBOARD_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#define OUTBOARD_FLAT_CLONES __attribute__((flatten, target_clones("avx512f", "avx2", "default")))
#else
#define OUTBOARD_VECTOR_CLONES
#define OUTBOARD_FLAT_CLONES
#endif

namespace outboard::random {

// ---- Values of one chunk of draws

OUTBOARD_VECTOR_CLONES
void chunk_words(const PhiloxState& state, int64_t chunk, int64_t count,
                 uint32_t* __restrict words) {
  const uint64_t first_block = static_cast<uint64_t>(chunk) * (kChunkWords / 4);
  const auto block_low = static_cast<uint32_t>(first_block);
  const auto block_high = static_cast<uint32_t>(first_block >> 32);
  const auto offset_low = static_cast<uint32_t>(state.offset);
  const auto offset_high = static_cast<uint32_t>(state.offset >> 32);
  const auto key_low = static_cast<uint32_t>(state.seed);
  const auto key_high = static_cast<uint32_t>(state.seed >> 32);
  for (int64_t i = 0; i < count / 4; ++i) {
    const PhiloxBlock block =
        philox4x32_10({block_low + static_cast<uint32_t>(i), block_high, offset_low, offset_high},
                      key_low, key_high);
    words[4 * i] = block.x;
    words[4 * i + 1] = block.y;
    words[4 * i + 2] = block.z;
    words[4 * i + 3] = block.w;
  }
}

OUTBOARD_VECTOR_CLONES
void uniform_values(const uint32_t* __restrict words, int64_t count, float scale, float from,
                    float largest, float* __restrict values) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = unit_float(words[i]) * scale + from;
    values[i] = value < largest ? value : largest;
  }
}

OUTBOARD_VECTOR_CLONES
void normal_values(const uint32_t* __restrict words, int64_t count, float deviation, float mean,
                   float* __restrict values) {
  for (int64_t i = 0; i < count / 2; ++i) {
    const float2 pair = normals_float(words[2 * i], words[2 * i + 1]);
    values[2 * i] = pair.x * deviation + mean;
    values[2 * i + 1] = pair.y * deviation + mean;
  }
}

OUTBOARD_VECTOR_CLONES
void exponential_values(const uint32_t* __restrict words, int64_t count, float scale,
                        float smallest, float* __restrict values) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = exponential_float(words[i]) * scale;
    values[i] = value > smallest ? value : smallest;
  }
}

OUTBOARD_VECTOR_CLONES
void cauchy_values(const uint32_t* __restrict words, int64_t count, float sigma, float median,
                   float* __restrict values) {
  for (int64_t i = 0; i < count; ++i) values[i] = cauchy_float(words[i]) * sigma + median;
}

OUTBOARD_VECTOR_CLONES
void geometric_values(const uint32_t* __restrict words, int64_t count, float scale, float largest,
                      float* __restrict values) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = __builtin_ceilf(exponential_float(words[i]) * scale);
    values[i] = value < 1.0f ? 1.0f : value < largest ? value : largest;
  }
}

OUTBOARD_VECTOR_CLONES
void below_values(const uint32_t* __restrict words, int64_t count, uint64_t threshold,
                  uint8_t* __restrict values) {
  // The threshold fits 32 bits without both ends: 2^32 words cannot all be below a word.
  if (threshold == 0 || threshold > 0xFFFFFFFFu) {
    const uint8_t all = threshold != 0;
    for (int64_t i = 0; i < count; ++i) values[i] = all;
    return;
  }
  const auto last = static_cast<uint32_t>(threshold - 1);
  for (int64_t i = 0; i < count; ++i) values[i] = words[i] <= last;
}

// ---- Rejection sampling

namespace {

using std::floor;

inline PhiloxBlock philox(ulong block, ulong seed, ulong offset) {
  return philox4x32_10({static_cast<uint>(block), static_cast<uint>(block >> 32),
                        static_cast<uint>(offset), static_cast<uint>(offset >> 32)},
                       static_cast<uint>(seed), static_cast<uint>(seed >> 32));
}

#define REJECTION_WORDS PhiloxBlock
#include "random_numbers/rejection.cl"

static_assert(REJECTION_BLOCKS == kRejectionBlocks);

PhiloxBlock block_at(const uint32_t* words, int64_t i) {
  return {words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
}

// Elements of a run that need attempts, with their parameters.
struct Attempts {
  int64_t count = 0;
  int32_t index[kRejectionElements];
  double a[kRejectionElements];
  double b[kRejectionElements];

  void add(int64_t i, double first, double second = 0) {
    index[count] = static_cast<int32_t>(i);
    a[count] = first;
    b[count] = second;
    ++count;
  }
};

// values[i] of all elements in `open`: the first non-negative attempt(a, b, block 0), attempt(a, b,
// block 1) ...; after `blocks` blocks, middle(a, b). A round of attempts is a loop without
// branches, which compilers vectorize; rejected elements enter the next round.
template <class Attempt, class Middle>
void first_accepted(const RejectionRun& run, Attempts& open, uint64_t blocks, double* values,
                    const Attempt& attempt, const Middle& middle) {
  uint32_t words[4 * kRejectionElements];
  double tried[kRejectionElements];
  for (int64_t j = 0; j < open.count; ++j) {
    std::memcpy(words + 4 * j, run.words + 4 * open.index[j], 4 * sizeof(uint32_t));
  }
  for (uint64_t k = 1;; ++k) {
    for (int64_t j = 0; j < open.count; ++j) {
      tried[j] = attempt(open.a[j], open.b[j], block_at(words, j));
    }
    int64_t rejected = 0;
    for (int64_t j = 0; j < open.count; ++j) {
      values[open.index[j]] = tried[j];
      open.index[rejected] = open.index[j];
      open.a[rejected] = open.a[j];
      open.b[rejected] = open.b[j];
      rejected += tried[j] < 0;
    }
    open.count = rejected;
    if (rejected == 0) return;
    if (k == blocks) break;
    for (int64_t j = 0; j < rejected; ++j) {
      const PhiloxBlock block = philox(static_cast<ulong>(run.first + open.index[j]),
                                       run.state.seed, run.state.offset + k);
      words[4 * j] = block.x;
      words[4 * j + 1] = block.y;
      words[4 * j + 2] = block.z;
      words[4 * j + 3] = block.w;
    }
  }
  for (int64_t j = 0; j < open.count; ++j) values[open.index[j]] = middle(open.a[j], open.b[j]);
}

}  // namespace

OUTBOARD_FLAT_CLONES
bool poisson_values(const RejectionRun& run, const double* rates, double* values) {
  Attempts open;
  Attempts small;
  double masses[kRejectionElements];
  bool valid = true;
  for (int64_t i = 0; i < run.count; ++i) {
    const double rate = rates[i];
    valid &= rate >= 0;
    if (rate < 10) {
      small.add(i, rate);
    } else {
      open.add(i, rate);
    }
  }
  if (!valid) return false;
  for (int64_t j = 0; j < small.count; ++j) masses[j] = rejection_exp(-small.a[j]);
  for (int64_t j = 0; j < small.count; ++j) {
    const int64_t i = small.index[j];
    values[i] = rejection_poisson_search(small.a[j], masses[j], block_at(run.words, i));
  }
  first_accepted(
      run, open, REJECTION_BLOCKS, values,
      [](double rate, double, PhiloxBlock block) { return rejection_poisson_attempt(rate, block); },
      [](double rate, double) { return floor(rate); });
  return true;
}

OUTBOARD_FLAT_CLONES
void binomial_values(const RejectionRun& run, const double* counts, const double* probabilities,
                     double* values) {
  Attempts open;
  Attempts small;
  double masses[kRejectionElements];
  double drawn[kRejectionElements];
  bool mirrored[kRejectionElements];
  for (int64_t i = 0; i < run.count; ++i) {
    const double p = probabilities[i];
    drawn[i] = rejection_binomial_known(counts[i], p);
    mirrored[i] = drawn[i] < 0 && p > 0.5;
    if (!(drawn[i] < 0)) continue;
    const double n = floor(counts[i]);
    const double q = p > 0.5 ? 1.0 - p : p;
    if (n * q < 10) {
      small.add(i, n, q);
    } else {
      open.add(i, n, q);
    }
  }
  for (int64_t j = 0; j < small.count; ++j) {
    masses[j] = rejection_binomial_mass(small.a[j], small.b[j]);
  }
  for (int64_t j = 0; j < small.count; ++j) {
    const int64_t i = small.index[j];
    drawn[i] = rejection_binomial_search(small.a[j], small.b[j], masses[j], block_at(run.words, i));
  }
  first_accepted(
      run, open, REJECTION_BLOCKS, drawn,
      [](double n, double p, PhiloxBlock block) { return rejection_binomial_attempt(n, p, block); },
      [](double n, double p) { return floor(n * p); });
  for (int64_t i = 0; i < run.count; ++i) {
    values[i] = mirrored[i] ? counts[i] - drawn[i] : drawn[i];
  }
}

OUTBOARD_FLAT_CLONES
void gamma_parts(const RejectionRun& run, const double* alphas, double* factors,
                 double* exponents) {
  Attempts open;
  bool boosted = false;
  for (int64_t i = 0; i < run.count; ++i) {
    const double alpha = alphas[i];
    boosted |= alpha < 1;
    factors[i] = 1.0;
    if (alpha > 0) open.add(i, alpha);
  }
  if (boosted) {
    const PhiloxState last{run.state.seed, run.state.offset + REJECTION_BLOCKS - 1};
    uint32_t words[4 * kRejectionElements];
    chunk_words(last, run.first / kRejectionElements, round_to_group(4 * run.count), words);
    for (int64_t i = 0; i < run.count; ++i) {
      const double exponent = rejection_gamma_exponent(alphas[i], block_at(words, i));
      exponents[i] = alphas[i] < 1 ? exponent : 0.0;
    }
  } else {
    for (int64_t i = 0; i < run.count; ++i) exponents[i] = 0.0;
  }
  for (int64_t i = 0; i < run.count; ++i) {
    exponents[i] = alphas[i] > 0 ? exponents[i] : -INFINITY;
  }
  first_accepted(
      run, open, REJECTION_BLOCKS - 1, factors,
      [](double alpha, double, PhiloxBlock block) { return rejection_gamma_attempt(alpha, block); },
      [](double alpha, double) { return alpha; });
}

OUTBOARD_FLAT_CLONES
void gamma_values(const RejectionRun& run, const double* alphas, double smallest, double* values) {
  double factors[kRejectionElements];
  double exponents[kRejectionElements];
  gamma_parts(run, alphas, factors, exponents);
  for (int64_t i = 0; i < run.count; ++i) {
    values[i] = rejection_gamma_value({factors[i], exponents[i]}, smallest);
  }
}

OUTBOARD_FLAT_CLONES
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

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
