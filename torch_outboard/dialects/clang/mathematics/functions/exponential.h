/* Exponential functions, logarithms, powers and roots. */

/* ---- exp, exp2, exp10, expm1: 2^n exp(r), |r| <= ln(2) / 2, with the rounding error of r ---- */

/* The integer nearest to x, for |x| < 2^22 (float), 2^51 (double), as both types. */
OB_FUNCTION T ob_nearest(T x, I* n) {
  const T moved = x + (T)(OB_ROUNDER);
  *n = OB_BITS(moved, I) - OB_BITS((T)(OB_ROUNDER), I);
  return moved - (T)(OB_ROUNDER);
}

/* exp(r + rest) as an unevaluated sum of two. */
OB_FUNCTION T ob_exp_near(T r, T rest, T* low) {
  const T tail = ob_mad(r * r, OB_POLYNOMIAL(r, K(EXP)), rest);
  T sum_rest;
  const T sum = ob_quick_sum((T)(1), r, &sum_rest);
  *low = sum_rest + tail;
  return sum;
}

/* x = n ln(2) + r + rest. */
OB_FUNCTION T ob_exp_reduce(T x, I* n, T* rest) {
  const T whole = ob_nearest(x * (T)(K(LOG2_E)), n);
  const T high = ob_mad(-whole, (T)(K(LN2_HIGH)), x), low = whole * (T)(K(LN2_LOW));
  const T r = high - low;
  *rest = (high - r) - low;
  return r;
}

/* exp(x + rest) = (result + low) 2^n, for |x| below 1e4 (double), 1e3 (float). */
OB_FUNCTION T ob_exp_parts(T x, T rest, I* n, T* low) {
  T r_rest;
  const T r = ob_exp_reduce(x, n, &r_rest);
  const T sum = ob_quick_sum(r, r_rest + rest, &r_rest);
  return ob_exp_near(sum, r_rest, low);
}

/* Clamps to the range of finite nonzero results; NaN passes. */
OB_FUNCTION T ob_clamped(T x, T low, T high) { return x > high ? high : x < low ? low : x; }

OB_FUNCTION T exp(T x) {
  I n;
  T rest, low;
  const T r = ob_exp_reduce(ob_clamped(x, (T)(K(EXP_LOW)), (T)(K(EXP_HIGH))), &n, &rest);
  const T high = ob_exp_near(r, rest, &low);
  return ob_scale(high + low, n);
}

OB_FUNCTION T exp2(T x) {
  I n;
  T rest, low;
  const T bounded = ob_clamped(x, (T)(K(EXP2_LOW)), (T)(K(EXP2_HIGH)));
  const T r = bounded - ob_nearest(bounded, &n);
  const T product = ob_two_product(r, (T)(K(NATURAL_2)), &rest);
  const T high = ob_exp_near(product, ob_mad(r, (T)(K(NATURAL_2_REST)), rest), &low);
  return ob_scale(high + low, n);
}

OB_FUNCTION T exp10(T x) {
  I n;
  T rest, low;
  const T bounded = ob_clamped(x, (T)(K(EXP10_LOW)), (T)(K(EXP10_HIGH)));
  const T whole = ob_nearest(bounded * (T)(K(LOG2_10)), &n);
  const T most = ob_mad(-whole, (T)(K(LOG10_2_HIGH)), bounded);
  const T least = whole * (T)(K(LOG10_2_LOW)), r = most - least;
  const T product = ob_two_product(r, (T)(K(NATURAL_10)), &rest);
  const T r_rest = (most - r) - least;
  rest = ob_mad(r, (T)(K(NATURAL_10_REST)), ob_mad(r_rest, (T)(K(NATURAL_10)), rest));
  const T high = ob_exp_near(product, rest, &low);
  return ob_scale(high + low, n);
}

OB_FUNCTION T expm1(T x) {
  I n;
  T rest, power_rest, sum_rest, square_rest, near_rest;
  const T r = ob_exp_reduce(ob_clamped(x, (T)(K(EXPM1_LOW)), (T)(K(EXP_HIGH))), &n, &rest);
  /* r + r^2 / 2, the first coefficient, and the remainder. */
  const T square = ob_two_product(r * (T)(0.5f), r, &square_rest);
  const T more = ob_mad(square * r, (T)(2) * OB_POLYNOMIAL(r, OB_FOLLOWING(K(EXP))), rest);
  const T near = ob_quick_sum(r, square, &near_rest);
  const T tail = more + (square_rest + near_rest);
  /* Halved, so that 2^n does not overflow before the result does. */
  const T power = ob_power_of_2(n - (I)(1));
  const T less = ob_two_sum(power, (T)(-0.5f), &power_rest);
  const T sum = ob_two_sum(less, power * near, &sum_rest);
  const T far = (sum + ob_mad(power, tail, sum_rest + power_rest)) * (T)(2);
  return n == (I)(0) ? (x == (T)(0) ? x : near + tail) : far;
}

/* ---- log, log2, log10, log1p ---- */

/*
 * ln(1 + f) as a sum of two, for f in [-1/3, 1/3] (float) or [sqrt(1/2) - 1, sqrt(2) - 1]: f - f^2
 * / 2 and a remainder, in double by atanh(f / (2 + f)). (That form: K. C. Ng, "log", FreeBSD's math
 * library.)
 */
OB_FUNCTION T ob_log_near(T f, T* low) {
  T square_rest, sum_rest;
  const T square = ob_two_product(f * (T)(0.5f), f, &square_rest);
  const T sum = ob_quick_sum(f, -square, &sum_rest);
#if OB_IS_DOUBLE
  const T s = f / (f + (T)(2)), z = s * s;
  const T more = s * ob_mad(z, OB_POLYNOMIAL(z, K(LOG)), square);
#else
  const T more = square * ((T)(2) * f * OB_POLYNOMIAL(f, K(LOG_SERIES)));
#endif
  *low = (sum_rest - square_rest) + more;
  return sum;
}

/* The same with 5 bits more in float, for results that are multiplied later. */
OB_FUNCTION T ob_log_closer(T f, T* low) {
#if OB_IS_DOUBLE
  return ob_log_near(f, low);
#else
  T square_rest, sum_rest, p_rest, cube_rest, more_rest, total_rest;
  const T square = ob_two_product(f * (T)(0.5f), f, &square_rest);
  const T sum = ob_quick_sum(f, -square, &sum_rest);
  const T p = ob_quick_sum(OB_COEFFICIENT(OB_FIRST(K(LOG_SERIES))),
                           f * OB_POLYNOMIAL(f, OB_FOLLOWING(K(LOG_SERIES))), &p_rest);
  const T cube = ob_two_product(square, f * (T)(2), &cube_rest);
  const T more = ob_two_product(cube, p, &more_rest);
  const T total = ob_quick_sum(sum, more, &total_rest);
  more_rest = ob_mad(cube, p_rest, ob_mad(cube_rest, p, more_rest));
  *low = total_rest + ((sum_rest - square_rest) + more_rest);
  return total;
#endif
}

/* e ln(2) + high + low. */
OB_FUNCTION T ob_log_sum(I exponent, T high, T low, T* rest) {
  const T e = OB_TO(exponent, T);
  T sum_rest;
  const T sum = ob_two_sum(e * (T)(K(LN2_HIGH)), high, &sum_rest);
  *rest = ob_mad(e, (T)(K(LN2_LOW)), sum_rest + low);
  return sum;
}

/* ln(x) as a sum of two, for finite x > 0. */
OB_FUNCTION T ob_log_parts(T x, T* rest) {
  I exponent;
  T low;
  const T high = ob_log_near(ob_mantissa(x, &exponent) - (T)(1), &low);
  return ob_log_sum(exponent, high, low, rest);
}

/* The value of all logarithms if x is not a finite positive number. */
OB_FUNCTION T ob_log_special(T x, T result) {
  result = x == OB_INFINITE ? x : result;
  result = x == (T)(0) ? -OB_INFINITE : result;
  return x >= (T)(0) ? result : OB_NOT_A_NUMBER;
}

OB_FUNCTION T log(T x) {
  T rest;
  const T sum = ob_log_parts(x, &rest);
  return ob_log_special(x, sum + rest);
}

OB_FUNCTION T log2(T x) {
  I exponent;
  T low, rest, sum_rest;
  const T high = ob_log_closer(ob_mantissa(x, &exponent) - (T)(1), &low);
  const T product = ob_two_product(high, (T)(K(LOG2_E)), &rest);
  rest = ob_mad(high, (T)(K(LOG2_E_REST)), ob_mad(low, (T)(K(LOG2_E)), rest));
  const T sum = ob_two_sum(OB_TO(exponent, T), product, &sum_rest);
  return ob_log_special(x, sum + (sum_rest + rest));
}

OB_FUNCTION T log10(T x) {
  T low, rest;
  const T high = ob_log_parts(x, &low);
  const T product = ob_two_product(high, (T)(K(LOG10_E)), &rest);
  rest = ob_mad(high, (T)(K(LOG10_E_REST)), ob_mad(low, (T)(K(LOG10_E)), rest));
  return ob_log_special(x, product + rest);
}

/* ln(1 + x + rest) as a sum of two, for finite x > -1. */
OB_FUNCTION T ob_log1p_parts(T x, T x_rest, T* rest) {
  I exponent;
  T lost, low;
  const T sum = ob_two_sum((T)(1), x, &lost);
  const T mantissa = ob_mantissa(sum, &exponent);
  const M near = exponent == (I)(0);
  const T f = near ? x : mantissa - (T)(1);
  const T scaled = (lost + x_rest) * ob_power_of_2(max(-exponent, (I)(1 - OB_BIAS)));
  const T high = ob_log_near(f, &low);
  /* The low part divided by 1 + f, which may be inexact. */
  const T shift = ob_mad(f, ob_mad(f, (T)(1) - f, (T)(-1)), (T)(1));
  low = ob_mad(near ? x_rest : scaled, shift, low);
  return ob_log_sum(exponent, high, low, rest);
}

OB_FUNCTION T log1p(T x) {
  T rest;
  const T sum = ob_log1p_parts(x, (T)(0), &rest);
  const T result = ob_log_special(x + (T)(1), sum + rest);
  /* Adding 1 loses -0 and the last bits of denormal numbers. */
  return fabs(x) < (T)(0x1p-60f) ? x : result;
}

/* ---- pow, pown, powr, rootn, cbrt, hypot, rsqrt ---- */

/* With a Newton step, since both the root and the quotient are rounded. */
OB_FUNCTION T rsqrt(T x) {
  const T y = (T)(1) / sqrt(x);
  T rest;
  const T product = ob_two_product(x, y, &rest);
  const T error = ob_mad(-product, y, (T)(1)) - rest * y;
  return (x > (T)(0)) & (x < OB_INFINITE) ? ob_mad(y * (T)(0.5f), error, y) : y;
}

#if OB_IS_DOUBLE

/*
 * ln(x) as a sum of two with about 67 bits, for finite x > 0: 2 atanh(s), s = (m - 1) / (m + 1). s,
 * s^2 and the first two terms are sums of two.
 */
OB_FUNCTION T ob_log_long(T x, T* rest) {
  I exponent;
  T d_rest, s_rest, z_rest, a_rest, w_rest, p_rest, sum_rest;
  const T f = ob_mantissa(x, &exponent) - (T)(1);
  const T d = ob_quick_sum((T)(2), f, &d_rest);
  const T s = ob_two_quotient(f, (T)(0), d, d_rest, &s_rest);
  const T z = ob_two_product(s, s, &z_rest);
  z_rest = ob_mad((T)(2) * s, s_rest, z_rest);
  const T a = ob_two_product(z, (T)(OB_THIRD), &a_rest);
  a_rest = ob_mad(z, (T)(OB_THIRD_REST), ob_mad(z_rest, (T)(OB_THIRD), a_rest));
  const T b = z * z * OB_POLYNOMIAL(z, OB_ATANH_REST_DOUBLE);
  T w = ob_quick_sum(a, b, &w_rest);
  w_rest += a_rest;
  const T twice = s * (T)(2), twice_rest = s_rest * (T)(2);
  const T p = ob_two_product(twice, w, &p_rest);
  p_rest = ob_mad(twice, w_rest, ob_mad(twice_rest, w, p_rest));
  const T near = ob_quick_sum(twice, p, &sum_rest);
  return ob_log_sum(exponent, near, sum_rest + (twice_rest + p_rest), rest);
}

/* x^(y + y_rest) for x >= 0, except for cases where x^y is 1 by definition. */
OB_FUNCTION T ob_pow_size(T x, T y, T y_rest) {
  T rest, product_rest, low;
  I n;
  const T logarithm = ob_log_long(x, &rest);
  const T product = ob_two_product(logarithm, y, &product_rest);
  product_rest = ob_mad(rest, y, ob_mad(logarithm, y_rest, product_rest));
  /* For results out of range or infinite logarithms the low part is invalid. */
  const T infinite = x == (T)(0) ? -OB_INFINITE : x == OB_INFINITE ? x : logarithm;
  const T whole = infinite * y;
  const M plain = fabs(whole) < (T)(760);
  const T bounded = plain ? product : whole < (T)(0) ? (T)(-760) : (T)(760);
  const T high = ob_exp_parts(bounded, plain ? product_rest : (T)(0), &n, &low);
  const T result = ob_scale(high + low, n);
  return whole != whole ? whole : result;
}

/* For float vectors, in double: ln(x) for finite x > 0, normal in double, within about 2^-36. */
OB_FUNCTION T ob_short_log(T x) {
  I exponent;
  const T f = ob_mantissa(x, &exponent) - (T)(1);
  const T s = f / (f + (T)(2)), z = s * s;
  const T near = ob_mad(s * z, OB_POLYNOMIAL(z, OB_LOG_SHORT), s * (T)(2));
  return ob_mad(OB_TO(exponent, T), (T)(OB_NATURAL_2_DOUBLE), near);
}
/* exp(x) for |x| < 700, within about 2^-36. */
OB_FUNCTION T ob_short_exp(T x) {
  I n;
  const T whole = ob_nearest(x * (T)(OB_LOG2_E_DOUBLE), &n);
  const T r = ob_mad(-whole, (T)(OB_NATURAL_2_DOUBLE), x);
  const T near = ob_mad(r, OB_POLYNOMIAL(r, OB_EXP_SHORT), (T)(1));
  return near * ob_power_of_2(n);
}
OB_FUNCTION T ob_short_pow_size(T x, T y) {
  const T logarithm = x == (T)(0) ? -OB_INFINITE : x == OB_INFINITE ? x : ob_short_log(x);
  return ob_short_exp(ob_clamped(logarithm * y, (T)(-200), (T)(200)));
}

/* The cube root of a number in [0.7, 5.7], within about 2^-40: Halley's method, from a parabola. */
OB_FUNCTION T ob_cube_root_near(T x) {
  T y = ob_mad(ob_mad(x, (T)(-0.02257f), (T)(0.3119f)), x, (T)(0.714f));
  for (int i = 0; i < 2; ++i) {
    const T cube = y * y * y;
    y = y * (cube + (T)(2) * x) / ((T)(2) * cube + x);
  }
  return y;
}
/* x = v 2^(3 third) with v in [0.7, 5.7]. */
OB_FUNCTION T ob_cube_root_reduce(T x, I* third) {
  I exponent;
  const T mantissa = ob_mantissa(x, &exponent);
  *third = ((exponent + (I)(3000)) * (I)(21846) >> (I)(16)) - (I)(1000);
  return mantissa * ob_power_of_2(exponent - (I)(3) * *third);
}
OB_FUNCTION T cbrt(T x) {
  I third;
  T square_rest, cube_rest;
  const T v = ob_cube_root_reduce(fabs(x), &third), y = ob_cube_root_near(v);
  /* A Newton step, with the exact error of y^3. */
  const T square = ob_two_product(y, y, &square_rest);
  const T cube = ob_two_product(square, y, &cube_rest);
  const T error = (v - cube) - ob_mad(square_rest, y, cube_rest);
  const T root = y + error / ((T)(3) * square);
  return fabs(x) < OB_INFINITE && x != (T)(0) ? copysign(root * ob_power_of_2(third), x) : x;
}

OB_FUNCTION T hypot(T x, T y) {
  I exponent;
  T big_rest, small_rest, sum_rest, back_rest;
  const T a = fabs(x), b = fabs(y), larger = a < b ? b : a, smaller = a < b ? a : b;
  const T big = ob_mantissa(larger, &exponent), small = ob_scale(smaller, -exponent);
  const T big_square = ob_two_product(big, big, &big_rest);
  const T small_square = ob_two_product(small, small, &small_rest);
  const T sum = ob_quick_sum(big_square, small_square, &sum_rest);
  const T root = sqrt(sum), back = ob_two_product(root, root, &back_rest);
  const T error = ((sum - back) - back_rest) + (sum_rest + (big_rest + small_rest));
  const T result = ob_scale(root + error / ((T)(2) * root), exponent);
  const T finite = x != x || y != y ? x + y : larger == (T)(0) ? larger : result;
  return a == OB_INFINITE || b == OB_INFINITE ? OB_INFINITE : finite;
}

#define OB_POW_SIZE(x, y) ob_pow_size(x, y, (T)(0))
OB_FUNCTION T ob_root_size(T x, T n) {
  T rest;
  const T y = ob_two_quotient((T)(1), (T)(0), n, (T)(0), &rest);
  return ob_pow_size(x, y, rest);
}
#define OB_POWN_SIZE(x, n) ob_pow_size(x, OB_TO(n, T), (T)(0))
#define OB_ROOTN_SIZE(x, n) ob_root_size(x, OB_TO(n, T))

#else

OB_FUNCTION T cbrt(T x) {
  OB_PASTE(long, OB_WIDTH) third;
  const D v = ob_cube_root_reduce(OB_TO(fabs(x), D), &third);
  const T root = OB_TO(ob_cube_root_near(v) * ob_power_of_2(third), T);
  return fabs(x) < OB_INFINITE && x != (T)(0) ? copysign(root, x) : x;
}
OB_FUNCTION T hypot(T x, T y) {
  const D a = OB_TO(x, D), b = OB_TO(y, D);
  const T result = OB_TO(sqrt(a * a + b * b), T);
  return fabs(x) == OB_INFINITE || fabs(y) == OB_INFINITE ? OB_INFINITE : result;
}
#define OB_POW_SIZE(x, y) OB_TO(ob_short_pow_size(OB_TO(x, D), OB_TO(y, D)), T)
#define OB_POWN_SIZE(x, n) OB_TO(ob_short_pow_size(OB_TO(x, D), OB_TO(n, D)), T)
#define OB_ROOTN_SIZE(x, n) OB_TO(ob_short_pow_size(OB_TO(x, D), (D)(1) / OB_TO(n, D)), T)

#endif

OB_FUNCTION T pow(T x, T y) {
  const T size = OB_POW_SIZE(fabs(x), y);
  const T half_y = y * (T)(0.5f);
  const M whole = rint(y) == y, odd = whole & (rint(half_y) != half_y);
  const M negative = OB_BITS(x, I) < (I)(0);
  T result = negative & odd ? -size : size;
  result = negative & !whole & (x != (T)(0)) & (x != -OB_INFINITE) ? OB_NOT_A_NUMBER : result;
  result = (x != x) | (y != y) ? x + y : result;
  const M one = (y == (T)(0)) | (x == (T)(1)) | ((x == (T)(-1)) & (fabs(y) == OB_INFINITE));
  return one ? (T)(1) : result;
}
OB_FUNCTION T powr(T x, T y) {
  const T result = pow(fabs(x), y);
  const M wrong = ((x == (T)(0)) & (y == (T)(0))) | ((x == OB_INFINITE) & (y == (T)(0))) |
                  ((x == (T)(1)) & (fabs(y) == OB_INFINITE)) | !(x >= (T)(0)) | (y != y);
  return wrong ? OB_NOT_A_NUMBER : result;
}
OB_FUNCTION T pown(T x, N n) {
  const T size = OB_POWN_SIZE(fabs(x), n);
  const I power = OB_TO(n, I);
  const M flip = ((power & (I)(1)) != (I)(0)) & (OB_BITS(x, I) < (I)(0));
  const T result = flip ? -size : size;
  return power == (I)(0) ? (T)(1) : x != x ? x : result;
}
OB_FUNCTION T rootn(T x, N n) {
  const T size = OB_ROOTN_SIZE(fabs(x), n);
  const I power = OB_TO(n, I);
  const M odd = (power & (I)(1)) != (I)(0), negative = OB_BITS(x, I) < (I)(0);
  const T result = negative & odd ? -size : size;
  const M wrong = (power == (I)(0)) | (negative & !odd & (x != (T)(0))) | (x != x);
  return wrong ? OB_NOT_A_NUMBER : result;
}
#undef OB_POW_SIZE
#undef OB_POWN_SIZE
#undef OB_ROOTN_SIZE
