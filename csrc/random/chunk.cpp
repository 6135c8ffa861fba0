#include "random/chunk.h"

#include <cmath>
#include <cstring>

// One version per instruction set, chosen at load. Contraction to fused multiply-adds is off, so
// that all versions give equal values. These options must also be active where the inlined
// functions of distributions.h are defined.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-trapping-math", "fp-contract=off")
#define OUTBOARD_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OUTBOARD_VECTOR_CLONES
#endif

#include "random/distributions.h"

namespace outboard::random {

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
    const NormalPair pair = normal_pair_float(words[2 * i], words[2 * i + 1]);
    values[2 * i] = pair.even * deviation + mean;
    values[2 * i + 1] = pair.odd * deviation + mean;
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
void geometric_values(const uint32_t* __restrict words, int64_t count, float scale,
                      float* __restrict values) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = __builtin_ceilf(exponential_float(words[i]) * scale);
    values[i] = value > 1.0f ? value : 1.0f;
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

}  // namespace outboard::random
