/* erf and erfc. */

#if OB_IS_DOUBLE

/*
 * erfc(a) for a >= 1/2 as (high + low) 2^n: exp(-a^2) P(t) / (1 + 2 a), t = (a - 4) / (a + 4). (M.
 * M. Shepherd and J. G. Laframboise, "Chebyshev approximation of (1 + 2 x) exp(x^2) erfc x", 1981.)
 */
OB_FUNCTION T ob_erfc_far(T a, T* low, I* n) {
  const T bounded = a > (T)(28) ? (T)(28) : a;
  T square_rest, exp_low, rest, divisor_rest, quotient_rest, product_rest;
  const T square = ob_two_product(bounded, bounded, &square_rest);
  const T power = ob_exp_parts(-square, -square_rest, n, &exp_low);
  const T t = (bounded - (T)(4)) / (bounded + (T)(4));
  T p_rest;
  const T p = ob_quick_sum((T)(OB_FIRST(OB_ERFC_DOUBLE)),
                           t * OB_POLYNOMIAL(t, OB_FOLLOWING(OB_ERFC_DOUBLE)), &p_rest);
  p_rest += (T)(OB_ERFC_FIRST_REST);
  const T divisor = ob_two_sum((T)(2) * bounded, (T)(1), &divisor_rest);
  const T quotient = ob_two_quotient(p, p_rest, divisor, divisor_rest, &quotient_rest);
  const T product = ob_two_product(quotient, power, &product_rest);
  rest = ob_mad(quotient, exp_low, ob_mad(quotient_rest, power, product_rest));
  *low = rest;
  return product;
}
OB_FUNCTION T erf(T x) {
  const T a = fabs(x), z = x * x;
  const T near = ob_mad(x, OB_POLYNOMIAL(z, OB_ERF_DOUBLE), x);
  I n;
  T low;
  const T high = ob_erfc_far(a < (T)(0.5f) ? (T)(0.5f) : a, &low, &n);
  T sum_rest;
  const T sum = ob_quick_sum((T)(1), -ob_scale(high, n), &sum_rest);
  const T far = copysign(sum + (sum_rest - ob_scale(low, n)), x);
  return a < (T)(0.7f) ? (x == (T)(0) ? x : near) : x != x ? x : far;
}
OB_FUNCTION T erfc(T x) {
  const T a = fabs(x), z = x * x;
  T sum_rest, low;
  I n;
  const T product = x * OB_POLYNOMIAL(z, OB_ERF_DOUBLE);
  const T sum = ob_two_sum((T)(1), -x, &sum_rest);
  const T near = sum + (sum_rest - product);
  const T high = ob_erfc_far(a < (T)(0.5f) ? (T)(0.5f) : a, &low, &n);
  const T far = ob_scale(high + low, n);
  return a < (T)(0.7f) ? near : x != x ? x : x < (T)(0) ? (T)(2) - far : far;
}
/* For float vectors: erfc(a) for a >= 1/2, within about 2^-36. */
OB_FUNCTION T ob_short_erfc_far(T a) {
  const T t = (a - (T)(4)) / (a + (T)(4));
  return ob_short_exp(-a * a) * OB_POLYNOMIAL(t, OB_ERFC_SHORT) / ob_mad(a, (T)(2), (T)(1));
}

#else

/* Up to 0.9 an odd polynomial, then 1 - exp(-h(a)). */
OB_FUNCTION T erf(T x) {
  const T a = fabs(x), z = x * x;
  const T near = ob_mad(x, OB_POLYNOMIAL(z, OB_ERF_FLOAT), x);
  /* h = c0 + a (c1 + a ...), with the rounding errors of the last two sums. */
  const T bounded = a > (T)(4) ? (T)(4) : a;
  T slope_rest, product_rest, low, sum_rest;
  I n;
  const T slope = ob_two_sum(
      (T)(OB_FIRST(OB_FOLLOWING(OB_ERF_EXPONENT_FLOAT))),
      bounded * OB_POLYNOMIAL(bounded, OB_FOLLOWING(OB_FOLLOWING(OB_ERF_EXPONENT_FLOAT))),
      &slope_rest);
  const T product = ob_two_product(bounded, slope, &product_rest);
  const T rest = ob_mad(bounded, slope_rest, product_rest) + (T)(OB_FIRST(OB_ERF_EXPONENT_FLOAT));
  const T high = ob_exp_parts(-product, -rest, &n, &low), power = ob_power_of_2(n);
  const T sum = ob_quick_sum((T)(1), -high * power, &sum_rest);
  const T far = copysign(sum + ob_mad(-low, power, sum_rest), x);
  return a < (T)(0.9f) ? (x == (T)(0) ? x : near) : x != x ? x : far;
}
OB_FUNCTION T erfc(T x) {
  const T a = fabs(x);
  const T bounded = a<(T)(0.5f) ? (T)(0.5f) : a>(T)(11) ? (T)(11) : a;
  const D down = ob_short_erfc_far(OB_TO(bounded, D));
  const D turned = OB_TO(x < (T)(0) ? (T)(1) : (T)(0), D);
  /* 2 - erfc(a) for negative x. */
  const T outside = OB_TO(turned * (D)(2) + ((D)(1) - turned * (D)(2)) * down, T);
  const T z = x * x, product = x * OB_POLYNOMIAL(z, OB_ERF_FLOAT);
  T sum_rest;
  const T sum = ob_two_sum((T)(1), -x, &sum_rest);
  return a < (T)(0.5f) ? sum + (sum_rest - product) : x != x ? x : outside;
}

#endif
