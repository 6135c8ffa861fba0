// The inner loops of random numbers on the host: vectorized, one chunk of draws at a time, on plain
// arrays that fit the L1 cache.
#pragma once

#include <cstdint>

#include "runtime/generator.h"

namespace outboard::random {

// Words per chunk. Chunks start at multiples of it, so the low word of a block's number never wraps
// inside a chunk.
constexpr int64_t kChunkWords = 1024;

// Granularity of the functions below: numbers of words from the start of a chunk are rounded up.
constexpr int64_t kWordGroup = 64;
constexpr int64_t round_to_group(int64_t words) {
  return (words + kWordGroup - 1) / kWordGroup * kWordGroup;
}

// words[0 .. count): the words of chunk `chunk`. `count`: a multiple of kWordGroup.
void chunk_words(const PhiloxState& state, int64_t chunk, int64_t count, uint32_t* words);

// Values of 32-bit draws. `count`: a multiple of kWordGroup.
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
