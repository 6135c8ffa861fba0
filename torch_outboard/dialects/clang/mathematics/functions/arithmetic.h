/*
 * Basis of the other files: bits, error-free sums and products, rounding, exponents, remainders.
 * (T. J. Dekker, "A floating-point technique for extending the available precision", 1971.)
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

/* ---- floor, ceil, trunc, rint, round; exponents and mantissas; nextafter; the exact fma ---- */

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
/* The product is exact in double; an inexact sum gets an odd last bit (see ob_odd_float). */
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

/* ---- fmod, remainder, remquo ----
 *
 * Exact. Quotients that fit in a mantissa are computed by division; larger ones per element, bit by
 * bit.
 */

#if OB_IS_NUMBER
/* |x| modulo |y| for finite x and y > 0, and the low bits of the quotient. */
static __attribute__((noinline, overloadable, unused)) S ob_long_division(S x, S y, J* quotient) {
  S x_mantissa, y_mantissa;
  const J x_exponent = ob_exponent(x, &x_mantissa), y_exponent = ob_exponent(y, &y_mantissa);
  const J mask = ((J)1 << OB_MANTISSA) - 1, hidden = (J)1 << OB_MANTISSA;
  J a = (OB_BITS(x_mantissa, J) & mask) | hidden, b = (OB_BITS(y_mantissa, J) & mask) | hidden;
  J q = 0;
  if (x_exponent < y_exponent) {
    *quotient = 0;
    return x;
  }
  for (J left = x_exponent - y_exponent; left >= 0; --left) {
    const J difference = a - b;
    q = (q << 1) & (OB_SIGN_BIT ^ -1);
    if (difference >= 0) {
      a = difference;
      q |= 1;
    }
    if (left > 0) a <<= 1;
  }
  *quotient = q;
  return ldexp((S)a, (int)(y_exponent - OB_MANTISSA));
}
#endif

/* |x| modulo |y|, and at least the low 7 bits of the quotient. */
OB_FUNCTION T ob_modulo(T x, T y, I* quotient) {
  const M plain = (x < OB_INFINITE) & (y < OB_INFINITE) & (y > (T)(0));
  const M scaled = plain & (y > OB_SMALLEST_NORMAL * (T)(OB_ONE_BY_EPSILON) * (T)(2)) &
                   (x < y * (T)(OB_ONE_BY_EPSILON) * (T)(0.25f));
  const T divisor = scaled ? y : (T)(1), dividend = scaled ? x : (T)(0);
  T whole = trunc(dividend / divisor), rest;
  const T product = ob_two_product(whole, divisor, &rest);
  T r = (dividend - product) - rest;
  const M below = r < (T)(0), above = r >= divisor;
  r = below ? r + divisor : above ? r - divisor : r;
  whole = below ? whole - (T)(1) : above ? whole + (T)(1) : whole;
  *quotient = OB_TO(whole, I);
  const M slow = plain & !scaled & (x >= y);
  r = scaled ? r : plain ? x : OB_NOT_A_NUMBER;
  r = (y == OB_INFINITE) & (x < OB_INFINITE) ? x : r;
  if (OB_ANY(slow)) {
    for (int i = 0; i < OB_LANES; ++i) {
      J q;
      if (!(OB_LANE(x, i) < __builtin_inff() && OB_LANE(y, i) > 0 &&
            OB_LANE(x, i) >= OB_LANE(y, i)))
        continue;
      if (OB_LANE(y, i) >= __builtin_inff()) continue;
      OB_LANE(r, i) = ob_long_division(OB_LANE(x, i), OB_LANE(y, i), &q);
      OB_LANE(*quotient, i) = q;
    }
  }
  return r;
}

OB_FUNCTION T fmod(T x, T y) {
  I quotient;
  const T r = ob_modulo(fabs(x), fabs(y), &quotient);
  return (x != x) | (y != y) ? x + y : copysign(r, x);
}
OB_FUNCTION T remquo(T x, T y, N* quotient) {
  I q;
  const T a = fabs(x), b = fabs(y), r = ob_modulo(a, b, &q);
  /* To nearest, ties to even. */
  const T other = b - r;
  const M odd = (q & (I)(1)) != (I)(0);
  const M up = (r > other) | ((r == other) & odd);
  const T found = up & (b < OB_INFINITE) ? r - b : r;
  q = (up & (b < OB_INFINITE) ? q + (I)(1) : q) & (I)(0x7f);
  const M differ = (OB_BITS(x, I) < (I)(0)) != (OB_BITS(y, I) < (I)(0));
  const M plain = found == found;
  *quotient = OB_TO(plain ? (differ ? -q : q) : (I)(0), N);
  const T result = OB_BITS(x, I) < (I)(0) ? -found : found;
  return (x != x) | (y != y) ? x + y : result;
}
OB_FUNCTION T remainder(T x, T y) {
  N quotient;
  return remquo(x, y, &quotient);
}
