// Values of continuous distributions from one draw each; normal ones from two. This source is
// compiled as OpenCL C, and as C++ by csrc/random/distributions.h, which documents the draws. BITS:
// 64 for float64, else 32; C++ compiles both.
//
// The float32 functions are polynomials, not calls of a math library: compilers vectorize them, and
// devices reproduce them.

#ifndef __cplusplus
#pragma OPENCL FP_CONTRACT OFF
#define VARIATE static inline
#define PAIR(T, first, second) (T)(first, second)
#endif

#if defined(__cplusplus) || BITS == 32
// The draw as an exact fraction in [0, 1).
VARIATE float unit_float(const uint word) { return (float)(int)(word >> 8) * 0x1p-24f; }

// Standard exponential: -log(u), u = (word + 1/2) / 2^32. Never 0. Near u = 1 the argument of the
// logarithm is 1 - (1 - u), whose small part is exact.
VARIATE float exponential_float(const uint word) {
  const bool near_one = word >= 0xB504F334u;  // sqrt(1/2) * 2^32
  const float from_one = ((float)(~word) + 0.5f) * 0x1p-32f;
  const float u = ((float)word + 0.5f) * 0x1p-32f;
  // u = mantissa * 2^exponent, mantissa in [sqrt(1/2), sqrt(2))
  const uint shifted = as_uint(u) - 0x3F3504F3u;
  const int exponent = (int)shifted >> 23;
  const float mantissa = as_float((shifted & 0x007FFFFFu) + 0x3F3504F3u);
  const float f = near_one ? -from_one : mantissa - 1.0f;
  const float e = near_one ? 0.0f : (float)exponent;
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

// (sine, cosine) of an angle in [-pi/4, pi/4].
VARIATE float2 sine_cosine(const float angle) {
  const float square = angle * angle;
  float sine = -0.0001958795f;
  sine = sine * square + 0.008332749f;
  sine = sine * square - 0.16666664f;
  float cosine = 2.4547991e-05f;
  cosine = cosine * square - 0.0013888304f;
  cosine = cosine * square + 0.041666664f;
  return PAIR(float2, angle + angle * square * sine,
              1.0f + (square * square * cosine - 0.5f * square));
}

// Two standard normals by the Box-Muller transform: elements 2k (cosine) and 2k + 1 (sine), from
// the words of element 2k (radius) and 2k + 1 (angle: word / 2^32 of a turn).
VARIATE float2 normals_float(const uint even, const uint odd) {
  const float radius = sqrt(2.0f * exponential_float(even));
  const uint quadrant = (odd + 0x20000000u) >> 30;
  const float2 octant =
      sine_cosine((float)(int)(odd - (quadrant << 30)) * 1.4629180792671596e-09f);
  const bool swapped = (quadrant & 1) != 0;
  const float cosine = swapped ? octant.x : octant.y, sine = swapped ? octant.y : octant.x;
  // quadrant 1 and 2: cosine < 0; quadrant 2 and 3: sine < 0
  return PAIR(float2, ((quadrant + 1) & 2) != 0 ? -radius * cosine : radius * cosine,
              (quadrant & 2) != 0 ? -radius * sine : radius * sine);
}

// Standard Cauchy: tan(pi * (u - 1/2)), u = (word + 1/2) / 2^32. Finite.
VARIATE float cauchy_float(const uint word) {
  const bool negative = (word & 0x80000000u) == 0;
  const uint magnitude = negative ? 0x7FFFFFFFu - word : word - 0x80000000u;
  const bool steep = magnitude >= 0x40000000u;  // above pi/4: the complement
  const uint rest = steep ? 0x7FFFFFFFu - magnitude : magnitude;
  const float2 octant = sine_cosine(((float)(int)rest + 0.5f) * 7.314590396335798e-10f);
  const float tangent = (steep ? octant.y : octant.x) / (steep ? octant.x : octant.y);
  return negative ? -tangent : tangent;
}
#endif

// The same from 64 bits.
#if defined(__cplusplus) || BITS == 64
VARIATE double unit_double(const ulong draw) { return (double)(long)(draw >> 11) * 0x1p-53; }

VARIATE double exponential_double(const ulong draw) {
  return (draw >> 63) != 0 ? -log1p(-((double)(~draw) + 0.5) * 0x1p-64)
                           : -log(((double)draw + 0.5) * 0x1p-64);
}

VARIATE double2 normals_double(const ulong even, const ulong odd) {
  const double radius = sqrt(2.0 * exponential_double(even));
  const double angle = (double)(long)odd * 0x1p-63 * M_PI;
  return PAIR(double2, radius * cos(angle), radius * sin(angle));
}

VARIATE double cauchy_double(const ulong draw) {
  const bool negative = (draw >> 63) == 0;
  const ulong magnitude = (negative ? ~draw : draw) & 0x7FFFFFFFFFFFFFFFul;
  const bool steep = magnitude >= (1ul << 62);
  const ulong rest = steep ? 0x7FFFFFFFFFFFFFFFul - magnitude : magnitude;
  const double tangent = tan(((double)rest + 0.5) * 0x1p-64 * M_PI);
  return (negative ? -1.0 : 1.0) * (steep ? 1.0 / tangent : tangent);
}
#endif
