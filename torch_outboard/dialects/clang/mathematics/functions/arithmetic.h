/*
 * Basis of the other files: bits, fused products, error-free sums and products. (T. J. Dekker, "A
 * floating-point technique for extending the available precision", 1971.)
 */
OB_FUNCTION T fabs(T x) { return OB_BITS(OB_BITS(x, I) & (I)(~OB_SIGN_BIT), T); }
OB_FUNCTION T copysign(T x, T y) {
  return OB_BITS((OB_BITS(x, I) & (I)(~OB_SIGN_BIT)) | (OB_BITS(y, I) & (I)(OB_SIGN_BIT)), T);
}
OB_FUNCTION T fmax(T x, T y) { return y != y ? x : x < y ? y : x != x ? y : x; }
OB_FUNCTION T fmin(T x, T y) { return y != y ? x : y < x ? y : x != x ? y : x; }
OB_FUNCTION T maxmag(T x, T y) {
  return fabs(x) > fabs(y) ? x : fabs(y) > fabs(x) ? y : fmax(x, y);
}
OB_FUNCTION T minmag(T x, T y) {
  return fabs(x) < fabs(y) ? x : fabs(y) < fabs(x) ? y : fmin(x, y);
}
OB_FUNCTION T fdim(T x, T y) { return x > y ? x - y : x != x ? x : y != y ? y : (T)(0); }

OB_FUNCTION T sqrt(T x) {
#if OB_IS_NUMBER
#if OB_IS_DOUBLE
  return __builtin_sqrt(x);
#else
  return __builtin_sqrtf(x);
#endif
#elif __has_builtin(__builtin_elementwise_sqrt)
  return __builtin_elementwise_sqrt(x);
#else
  T r;
  for (int i = 0; i < OB_LANES; ++i) r[i] = sqrt(x[i]);
  return r;
#endif
}

#if OB_FUSED
OB_FUNCTION T ob_mad(T x, T y, T z) {
#if OB_IS_NUMBER
#if OB_IS_DOUBLE
  return __builtin_fma(x, y, z);
#else
  return __builtin_fmaf(x, y, z);
#endif
#elif __has_builtin(__builtin_elementwise_fma)
  return __builtin_elementwise_fma(x, y, z);
#else
  T r;
  for (int i = 0; i < OB_LANES; ++i) r[i] = ob_mad(x[i], y[i], z[i]);
  return r;
#endif
}
#else
OB_FUNCTION T ob_mad(T x, T y, T z) { return x * y + z; }
#endif

/* x + y, and its rounding error; for |x| >= |y| or x = 0, and for any x. */
OB_FUNCTION T ob_quick_sum(T x, T y, T* rest) {
  const T sum = x + y;
  *rest = y - (sum - x);
  return sum;
}
OB_FUNCTION T ob_two_sum(T x, T y, T* rest) {
  const T sum = x + y, given = sum - x;
  *rest = (x - (sum - given)) + (y - given);
  return sum;
}
OB_FUNCTION T ob_two_product(T x, T y, T* rest) {
  const T product = x * y;
#if OB_FUSED
  *rest = ob_mad(x, y, -product);
#else
  /* Halves of the mantissas. */
  const I leading = (I)((J)-1 << ((OB_MANTISSA + 2) / 2));
  const T x_high = OB_BITS(OB_BITS(x, I) & leading, T),
          y_high = OB_BITS(OB_BITS(y, I) & leading, T);
  const T x_low = x - x_high, y_low = y - y_high;
  *rest = x_low * y_low - (((product - x_high * y_high) - x_low * y_high) - x_high * y_low);
#endif
  return product;
}
/* (x + x_rest) / (y + y_rest). */
OB_FUNCTION T ob_two_quotient(T x, T x_rest, T y, T y_rest, T* rest) {
  const T quotient = x / y;
  T back_rest;
  const T back = ob_two_product(quotient, y, &back_rest);
  *rest = ((((x - back) - back_rest) + x_rest) - quotient * y_rest) / y;
  return quotient;
}

/* 2^n, n an exponent of a normal number; x 2^n, n up to twice the extreme exponents. */
OB_FUNCTION T ob_power_of_2(I n) { return OB_BITS((n + (I)(OB_BIAS)) << (I)(OB_MANTISSA), T); }
OB_FUNCTION T ob_scale(T x, I n) {
  const I half_n = n >> (I)(1);
  return x * ob_power_of_2(half_n) * ob_power_of_2(n - half_n);
}

/* x = m 2^e with m from LEAST_MANTISSA to twice that, for finite x > 0. */
OB_FUNCTION T ob_mantissa(T x, I* exponent) {
  const M denormal = x < OB_SMALLEST_NORMAL;
  const I root = (I)(K(LEAST_MANTISSA));
  const T scaled = denormal ? x * (T)(0x1p60f) : x;
  const I bits = OB_BITS(scaled, I) - root;
  *exponent = (bits >> (I)(OB_MANTISSA)) - (denormal ? (I)(60) : (I)(0));
  return OB_BITS((bits & (I)(((J)1 << OB_MANTISSA) - 1)) + root, T);
}
