/* floor, ceil, trunc, rint, round; exponents and mantissas; nextafter; the exact fma. */

OB_FUNCTION T rint(T x) {
#if OB_ROUNDS && __has_builtin(__builtin_elementwise_roundeven)
  return __builtin_elementwise_roundeven(x);
#else
  const T size = fabs(x), shift = (T)(OB_ONE_BY_EPSILON);
  return size < shift ? copysign((size + shift) - shift, x) : x;
#endif
}
OB_FUNCTION T floor(T x) {
#if OB_ROUNDS && __has_builtin(__builtin_elementwise_floor)
  return __builtin_elementwise_floor(x);
#else
  const T r = rint(x);
  return copysign(r > x ? r - (T)(1) : r, x);
#endif
}
OB_FUNCTION T ceil(T x) { return -floor(-x); }
OB_FUNCTION T trunc(T x) { return copysign(floor(fabs(x)), x); }
OB_FUNCTION T round(T x) {
  const T size = fabs(x), whole = floor(size);
  return copysign(size - whole >= (T)(0.5f) ? whole + (T)(1) : whole, x);
}
OB_FUNCTION T modf(T x, T* whole) {
  const T r = trunc(x);
  *whole = r;
  return copysign(fabs(x) == OB_INFINITE ? (T)(0) : x - r, x);
}
OB_FUNCTION T fract(T x, T* whole) {
  const T r = floor(x), below_one = (T)(1) - (T)(0.5f) / (T)(OB_ONE_BY_EPSILON);
  *whole = r;
  const T rest = x - r;
  return fabs(x) == OB_INFINITE ? copysign((T)(0), x) : rest > below_one ? below_one : rest;
}

/* The exponent of |x|, and x scaled to exponent 0; for finite nonzero x. */
OB_FUNCTION I ob_exponent(T x, T* mantissa) {
  const M denormal = fabs(x) < OB_SMALLEST_NORMAL;
  const I bits = OB_BITS(denormal ? x * (T)(0x1p60f) : x, I);
  const I field = (bits >> (I)(OB_MANTISSA)) & (I)(OB_EXPONENTS);
  *mantissa = OB_BITS(
      (bits & ~((I)((J)OB_EXPONENTS << OB_MANTISSA))) | ((I)((J)OB_BIAS << OB_MANTISSA)), T);
  return field - (denormal ? (I)(OB_BIAS + 60) : (I)(OB_BIAS));
}
OB_FUNCTION N ilogb(T x) {
  T mantissa;
  const I exponent = ob_exponent(x, &mantissa);
  const I special = x == (T)(0) ? (I)(FP_ILOGB0) : (I)(INT_MAX);
  return OB_TO(fabs(x) < OB_INFINITE && x != (T)(0) ? exponent : special, N);
}
OB_FUNCTION T logb(T x) {
  T mantissa;
  const T exponent = OB_TO(ob_exponent(x, &mantissa), T);
  const T special = x == (T)(0) ? -OB_INFINITE : x * x;
  return fabs(x) < OB_INFINITE && x != (T)(0) ? exponent : special;
}
OB_FUNCTION T frexp(T x, N* exponent) {
  T mantissa;
  const I found = ob_exponent(x, &mantissa) + (I)(1);
  const M finite = fabs(x) < OB_INFINITE && x != (T)(0);
  *exponent = OB_TO(finite ? found : (I)(0), N);
  return finite ? mantissa * (T)(0.5f) : x;
}
/* Rounded once: a denormal result is the product of a normal one. */
OB_FUNCTION T ldexp(T x, N n) {
  T mantissa;
  const I shift = OB_TO(min(max(n, (N)(-5000)), (N)(5000)), I);
  const I exponent = ob_exponent(x, &mantissa) + shift;
  const I bounded = max(min(exponent, (I)(OB_BIAS)), (I)(-OB_BIAS - 61));
  const M small = bounded < (I)(1 - OB_BIAS);
  const T scaled = mantissa * ob_power_of_2(small ? bounded + (I)(64) : bounded);
  const T finite = small ? scaled * (T)(0x1p-64f) : scaled;
  const T result = exponent > (I)(OB_BIAS) ? copysign(OB_INFINITE, x) : finite;
  return fabs(x) < OB_INFINITE && x != (T)(0) ? result : x;
}

OB_FUNCTION T nextafter(T x, T y) {
  const I bits = OB_BITS(x, I);
  const M away = (x > (T)(0)) == (y > x);
  const I next = away ? bits + (I)(1) : bits - (I)(1);
  const I first = (OB_BITS(y, I) & (I)(OB_SIGN_BIT)) | (I)(1);
  const T found = OB_BITS(x == (T)(0) ? first : next, T);
  return x != x || y != y ? x + y : x == y ? y : found;
}
OB_FUNCTION T nan(U payload) {
  const I quiet = (I)(OB_INFINITE_BITS) | (I)((J)1 << (OB_MANTISSA - 1));
  return OB_BITS(quiet | (OB_BITS(payload, I) & (I)(((J)1 << (OB_MANTISSA - 1)) - 1)), T);
}

OB_FUNCTION T mad(T x, T y, T z) { return ob_mad(x, y, z); }
#if OB_FUSED
OB_FUNCTION T fma(T x, T y, T z) { return ob_mad(x, y, z); }
#elif OB_IS_DOUBLE
/* By the C library if the processor has no fma. */
OB_FUNCTION T fma(T x, T y, T z) {
#if OB_IS_NUMBER
  return __builtin_fma(x, y, z);
#else
  T r;
  for (int i = 0; i < OB_LANES; ++i) r[i] = __builtin_fma(x[i], y[i], z[i]);
  return r;
#endif
}
#else
/* The product is exact in double; an inexact sum gets an odd last bit (see half.h). */
OB_FUNCTION T fma(T x, T y, T z) {
  D rest;
  const D sum = ob_two_sum(OB_TO(x, D) * OB_TO(y, D), OB_TO(z, D), &rest);
#if OB_IS_NUMBER
  const long bits = OB_BITS(sum, long);
  const int odd = (rest != 0) & ((bits & 1) == 0) & (rest == rest);
  const long toward = ((rest > 0) == (sum > 0)) ? bits + 1 : bits - 1;
  return (float)OB_BITS(odd ? toward : bits, double);
#else
  T r;
  for (int i = 0; i < OB_LANES; ++i) r[i] = fma(x[i], y[i], z[i]);
  return r;
#endif
}
#endif
