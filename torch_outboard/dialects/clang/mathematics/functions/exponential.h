/* exp, exp2, exp10, expm1: 2^n exp(r), |r| <= ln(2) / 2, with the rounding error of r. */

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
