/* log, log2, log10, log1p. */

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
  const T p = ob_quick_sum((T)(OB_FIRST(K(LOG_SERIES))),
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
