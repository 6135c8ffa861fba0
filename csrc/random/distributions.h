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
//
// The float32 functions below are polynomials, not calls of a math library: compilers vectorize
// them, and devices reproduce them.
// mathematical library: compilers vectorize them, and devices reproduce them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "random/philox.h"

namespace outboard::random {

// The draw as an exact fraction in [0, 1).
OUTBOARD_PHILOX_INLINE float unit_float(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}
OUTBOARD_PHILOX_INLINE double unit_double(uint64_t draw) {
  return static_cast<double>(static_cast<int64_t>(draw >> 11)) * 0x1p-53;
}

// (draw * range) >> bits; range 0 means 2^64.
OUTBOARD_PHILOX_INLINE uint64_t below_small(uint32_t word, uint32_t range) {
  return (uint64_t{word} * range) >> 32;
}
OUTBOARD_PHILOX_INLINE uint64_t below_large(uint64_t draw, uint64_t range) {
  return range == 0 ? draw
                    : static_cast<uint64_t>((static_cast<unsigned __int128>(draw) * range) >> 64);
}
constexpr uint64_t kSmallRange = uint64_t{1} << 24;

// Standard exponential: -log(u), u = (word + 1/2) / 2^32. Never 0. Near u = 1 the argument of the
// logarithm is 1 - (1 - u), whose small part is exact.
OUTBOARD_PHILOX_INLINE float exponential_float(uint32_t word) {
  // sqrt(1/2) * 2^32
  const bool near_one = word >= 0xB504F334u;
  const float from_one = (static_cast<float>(~word) + 0.5f) * 0x1p-32f;
  const float unit = (static_cast<float>(word) + 0.5f) * 0x1p-32f;
  // unit = mantissa * 2^exponent, mantissa in [sqrt(1/2), sqrt(2))
  uint32_t bits;
  std::memcpy(&bits, &unit, sizeof(bits));
  const uint32_t shifted = bits - 0x3F3504F3u;
  const int32_t exponent = static_cast<int32_t>(shifted) >> 23;
  const uint32_t mantissa_bits = (shifted & 0x007FFFFFu) + 0x3F3504F3u;
  float mantissa;
  std::memcpy(&mantissa, &mantissa_bits, sizeof(mantissa));
  const float f = near_one ? -from_one : mantissa - 1.0f;
  const float e = near_one ? 0.0f : static_cast<float>(exponent);
  // log(1 + f) = f - f^2 / 2 + f^3 * tail(f)
  float tail = 0.07149754f;
  tail = tail * f - 0.11571201f;
  tail = tail * f + 0.11661511f;
  tail = tail * f - 0.124110505f;
  tail = tail * f + 0.14249937f;
  tail = tail * f - 0.1666848f;
  tail = tail * f + 0.20000708f;
  tail = tail * f - 0.2499999f;
  tail = tail * f + 0.3333333f;
  const float square = f * f;
  // log(2) in two parts: the first has few bits, so its product with e is exact.
  const float small = f * square * tail - 0.5f * square + e * -2.12194440e-4f;
  return -((small + f) + e * 0.693359375f);
}
OUTBOARD_PHILOX_INLINE double exponential_double(uint64_t draw) {
  if ((draw >> 63) != 0) {
    return -std::log1p(-(static_cast<double>(~draw) + 0.5) * 0x1p-64);
  }
  return -std::log((static_cast<double>(draw) + 0.5) * 0x1p-64);
}

// Sine and cosine of an angle in [-pi/4, pi/4].
struct SinCos {
  float sine, cosine;
};
OUTBOARD_PHILOX_INLINE SinCos sin_cos_octant(float angle) {
  const float square = angle * angle;
  float sine = -0.0001958795f;
  sine = sine * square + 0.008332749f;
  sine = sine * square - 0.16666664f;
  float cosine = 2.4547991e-05f;
  cosine = cosine * square - 0.0013888304f;
  cosine = cosine * square + 0.041666664f;
  return {angle + angle * square * sine, 1.0f + (square * square * cosine - 0.5f * square)};
}

// Two standard normals by the Box-Muller transform: elements 2k (cosine) and 2k + 1 (sine), from
// the words of element 2k (radius) and 2k + 1 (angle: word / 2^32 of a turn).
struct NormalPair {
  float even, odd;
};
OUTBOARD_PHILOX_INLINE NormalPair normal_pair_float(uint32_t even_word, uint32_t odd_word) {
  const float radius = __builtin_sqrtf(2.0f * exponential_float(even_word));
  const uint32_t quadrant = (odd_word + 0x20000000u) >> 30;
  const int32_t rest = static_cast<int32_t>(odd_word - (quadrant << 30));
  const SinCos octant = sin_cos_octant(static_cast<float>(rest) * 1.4629180792671596e-09f);
  const bool swapped = (quadrant & 1) != 0;
  const float cosine = swapped ? octant.sine : octant.cosine;
  const float sine = swapped ? octant.cosine : octant.sine;
  // quadrant 1 and 2: cosine < 0; quadrant 2 and 3: sine < 0
  return {((quadrant + 1) & 2) != 0 ? -radius * cosine : radius * cosine,
          (quadrant & 2) != 0 ? -radius * sine : radius * sine};
}
struct NormalPairDouble {
  double even, odd;
};
OUTBOARD_PHILOX_INLINE NormalPairDouble normal_pair_double(uint64_t even_draw, uint64_t odd_draw) {
  const double radius = std::sqrt(2.0 * exponential_double(even_draw));
  const double angle = static_cast<double>(static_cast<int64_t>(odd_draw)) * 0x1p-63 * M_PI;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Standard Cauchy: tan(pi * (u - 1/2)), u = (draw + 1/2) / 2^bits. Finite.
OUTBOARD_PHILOX_INLINE float cauchy_float(uint32_t word) {
  const bool negative = (word & 0x80000000u) == 0;
  const uint32_t magnitude = negative ? 0x7FFFFFFFu - word : word - 0x80000000u;
  // Above pi/4: the complement.
  const bool steep = magnitude >= 0x40000000u;
  const uint32_t rest = steep ? 0x7FFFFFFFu - magnitude : magnitude;
  const SinCos octant = sin_cos_octant((static_cast<float>(static_cast<int32_t>(rest)) + 0.5f) *
                                       7.314590396335798e-10f);
  const float tangent =
      (steep ? octant.cosine : octant.sine) / (steep ? octant.sine : octant.cosine);
  return negative ? -tangent : tangent;
}
OUTBOARD_PHILOX_INLINE double cauchy_double(uint64_t draw) {
  const bool negative = (draw >> 63) == 0;
  const uint64_t magnitude = negative ? ~draw & INT64_MAX : draw & INT64_MAX;
  const bool steep = magnitude >= (uint64_t{1} << 62);
  const uint64_t rest = steep ? INT64_MAX - magnitude : magnitude;
  const double tangent = std::tan((static_cast<double>(rest) + 0.5) * 0x1p-64 * M_PI);
  return (negative ? -1.0 : 1.0) * (steep ? 1.0 / tangent : tangent);
}

}  // namespace outboard::random
