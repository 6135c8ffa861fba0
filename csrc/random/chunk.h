// The inner loops of random numbers on the host: a chunk of draws at a time, vectorized, on plain
// arrays that stay in the first-level cache.
#pragma once

#include <cstdint>

#include "runtime/generator.h"

namespace outboard::random {

// Words per chunk. Chunks start at multiples of it, so that the low word of a block's number never
// wraps inside of one.
constexpr int64_t kChunkWords = 1024;

// A number of words from the start of a chunk, rounded up to what the functions below work on.
constexpr int64_t kWordGroup = 64;
constexpr int64_t round_to_group(int64_t words) {
  return (words + kWordGroup - 1) / kWordGroup * kWordGroup;
}

// words[0 .. count): the words of chunk `chunk`. `count` is a multiple of kWordGroup.
void chunk_words(const PhiloxState& state, int64_t chunk, int64_t count, uint32_t* words);

// Values of 32-bit draws. `count` is a multiple of kWordGroup.
// min(unit * scale + from, largest)
void uniform_values(const uint32_t* words, int64_t count, float scale, float from, float largest,
                    float* values);
// normal * deviation + mean
void normal_values(const uint32_t* words, int64_t count, float deviation, float mean,
                   float* values);
// max(exponential * scale, smallest)
void exponential_values(const uint32_t* words, int64_t count, float scale, float smallest,
                        float* values);
// tangent * sigma + median
void cauchy_values(const uint32_t* words, int64_t count, float sigma, float median, float* values);
// max(ceil(exponential * scale), 1)
void geometric_values(const uint32_t* words, int64_t count, float scale, float* values);
// word < threshold; 1 or 0
void below_values(const uint32_t* words, int64_t count, uint64_t threshold, uint8_t* values);

}  // namespace outboard::random
