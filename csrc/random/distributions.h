// Random values from random words: the words of an element, and the functions of distributions.
//
// Element i of a tensor is the i-th in logical (row-major) order for any strides. With the offset
// of the operator's PhiloxState:
//
//   32-bit draw of element i: word i % 4 of block i / 4.
//   64-bit draw of element i: words 2 * (i % 2) (low) and 2 * (i % 2) + 1 (high) of block i / 2.
//
// So a block serves four (two) adjacent elements, kernels of any vector width compute equal
// numbers, and an operator call advances the generator's offset by one. Complex tensors draw for
// their real view. Draws per distribution and dtype:
//
//   float32, float16, bfloat16   32 bits; computed in float32, rounded to nearest even
//   float64                      64 bits; computed in float64
//   random_, randint             32 bits for ranges up to 2^24, else 64, in any dtype:
//                                (draw * range) >> bits, plus `from`
//   bernoulli, dropout           32 bits: the draw as an integer is less than p * 2^32
//   geometric                    as float32, except for float64
//   randperm                     64 bits: stable order of the draws
//   multinomial                  with replacement 64 bits per sample, else as exponential
//
// Bernoulli, dropout, random_, randperm and uniform in [0, 1) are bitwise equal everywhere. Maximal
// errors of the other float32 functions before scale and shift, on the host and required of
// devices: exponential 3 ulp, normal 5 ulp, Cauchy 6 ulp. geometric can differ by one if the
// quotient is this close to an integer, multinomial if the draw is this close to a cumulative
// weight.
#pragma once

#include <cmath>
#include <cstdint>

namespace outboard::random {

#define OUTBOARD_ALWAYS_INLINE inline __attribute__((always_inline))

// ---- Philox4x32-10: the counter-based random number generator of Salmon, Moraes, Dror and Shaw,
// "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
//
// A block is a pure function of a 128-bit counter and a 64-bit key: four 32-bit words. Only 32-bit
// integers and one 32x32->64 multiplication are used, so a device kernel in any C-like language
// computes the same words.
//
// Key and counter of an operator: key = (seed low, seed high), counter = (block low, block high,
// offset low, offset high), with the PhiloxState that it reserved.

struct PhiloxBlock {
  uint32_t x, y, z, w;
};

OUTBOARD_ALWAYS_INLINE PhiloxBlock philox4x32_10(PhiloxBlock counter, uint32_t key_low,
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

// ---- Integers

// (draw * range) >> bits; range 0 means 2^64.
OUTBOARD_ALWAYS_INLINE uint64_t below_small(uint32_t word, uint32_t range) {
  return (uint64_t{word} * range) >> 32;
}
OUTBOARD_ALWAYS_INLINE uint64_t below_large(uint64_t draw, uint64_t range) {
  return range == 0 ? draw
                    : static_cast<uint64_t>((static_cast<unsigned __int128>(draw) * range) >> 64);
}
constexpr uint64_t kSmallRange = uint64_t{1} << 24;

// ---- Continuous distributions: torch_outboard/kernels/random_numbers/variates.cl, compiled as C++

// Names of OpenCL C in the included sources. All are inlined, or loops over them do not vectorize:
// GCC inlines functions of the standard library only with equal options.
using uint = uint32_t;
using ulong = uint64_t;
struct float2 {
  float x, y;
};
struct double2 {
  double x, y;
};
OUTBOARD_ALWAYS_INLINE uint as_uint(float value) { return __builtin_bit_cast(uint, value); }
OUTBOARD_ALWAYS_INLINE float as_float(uint bits) { return __builtin_bit_cast(float, bits); }
OUTBOARD_ALWAYS_INLINE ulong as_ulong(double value) { return __builtin_bit_cast(ulong, value); }
OUTBOARD_ALWAYS_INLINE double as_double(ulong bits) { return __builtin_bit_cast(double, bits); }
using std::cos;
using std::log;
using std::log1p;
using std::sin;
using std::tan;
OUTBOARD_ALWAYS_INLINE float sqrt(float value) { return __builtin_sqrtf(value); }
OUTBOARD_ALWAYS_INLINE double sqrt(double value) { return __builtin_sqrt(value); }

#define VARIATE OUTBOARD_ALWAYS_INLINE
#define PAIR(T, first, second) (T{first, second})
#include "random_numbers/variates.cl"
#undef VARIATE
#undef PAIR

}  // namespace outboard::random
