// Philox4x32-10: the counter-based random number generator of Salmon, Moraes, Dror and Shaw,
// "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
//
// A block is a pure function of a 128-bit counter and a 64-bit key: four 32-bit words. Only 32-bit
// integers and one 32x32->64 multiplication are used, so a device kernel in any C-like language
// computes the same words.
//
// Key and counter of an operator: key = (seed low, seed high), counter = (block low, block high,
// offset low, offset high), with the PhiloxState that it reserved. distributions.h defines the
// block and the words of an element.
#pragma once

#include <cstdint>

namespace outboard::random {

#define OUTBOARD_PHILOX_INLINE inline __attribute__((always_inline))

struct PhiloxBlock {
  uint32_t x, y, z, w;
};

OUTBOARD_PHILOX_INLINE PhiloxBlock philox4x32_10(PhiloxBlock counter, uint32_t key_low,
                                                 uint32_t key_high) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product_x = uint64_t{0xD2511F53u} * counter.x;
    const uint64_t product_z = uint64_t{0xCD9E8D57u} * counter.z;
    counter = {static_cast<uint32_t>(product_z >> 32) ^ counter.y ^ key_low,
               static_cast<uint32_t>(product_z),
               static_cast<uint32_t>(product_x >> 32) ^ counter.w ^ key_high,
               static_cast<uint32_t>(product_x)};
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace outboard::random
