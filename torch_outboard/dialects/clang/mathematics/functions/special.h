/* The error function and the gamma function. */

/* ---- erf, erfc ---- */

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
  const T p = ob_quick_sum(OB_COEFFICIENT(OB_FIRST(OB_ERFC_DOUBLE)),
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
      OB_COEFFICIENT(OB_FIRST(OB_FOLLOWING(OB_ERF_EXPONENT_FLOAT))),
      bounded * OB_POLYNOMIAL(bounded, OB_FOLLOWING(OB_FOLLOWING(OB_ERF_EXPONENT_FLOAT))),
      &slope_rest);
  const T product = ob_two_product(bounded, slope, &product_rest);
  const T rest =
      ob_mad(bounded, slope_rest, product_rest) + OB_COEFFICIENT(OB_FIRST(OB_ERF_EXPONENT_FLOAT));
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

/* ---- lgamma, lgamma_r, tgamma ---- */

#if OB_IS_DOUBLE

/* y (y + 1) ... up to 8, as a sum of two, and the final factor; for 0 <= y < 8. */
OB_FUNCTION T ob_rising(T y, T* shifted, T* shifted_rest, T* rest) {
  T product = (T)(1), product_rest = (T)(0), factor = y, factor_rest = (T)(0);
  for (int i = 0; i < 8; ++i) {
    const M more = factor < (T)(8);
    T lost, next_rest;
    const T next = ob_two_product(product, factor, &lost);
    lost = ob_mad(product, factor_rest, ob_mad(product_rest, factor, lost));
    product_rest = more ? lost : product_rest;
    product = more ? next : product;
    const T moved = ob_two_sum(factor, (T)(1), &next_rest);
    factor_rest = more ? factor_rest + next_rest : factor_rest;
    factor = more ? moved : factor;
  }
  *shifted = factor;
  *shifted_rest = factor_rest;
  *rest = product_rest;
  return product;
}

/* ln(gamma(y)) as a sum of two, for y >= 8: Stirling's formula. */
OB_FUNCTION T ob_stirling(T y, T y_rest, T* rest) {
  T log_rest, product_rest, sum_rest, more_rest;
  const T logarithm = ob_log_long(y, &log_rest), less = y - (T)(0.5f);
  const T product = ob_two_product(less, logarithm, &product_rest);
  product_rest = ob_mad(less, log_rest, product_rest);
  const T sum = ob_quick_sum(product, -y, &sum_rest);
  const T total = ob_quick_sum(sum, (T)(OB_HALF_LOG_2_PI), &more_rest);
  const T inverse = (T)(1) / y;
  const T series = inverse * OB_POLYNOMIAL(inverse * inverse, OB_STIRLING_DOUBLE);
  /* The derivative of ln(gamma) is near ln(y) - 1 / (2 y). */
  const T shift = y_rest * (logarithm - (T)(0.5f) * inverse);
  *rest = ((sum_rest + more_rest) + (product_rest + (T)(OB_HALF_LOG_2_PI_REST))) + (series + shift);
  return total;
}

/*
 * By gamma(y + k) / (y (y + 1) ... (y + k - 1)) with y + k >= 8, and for x < 0 by
 * gamma(x) gamma(-x) = -pi / (x sin(pi x)).
 */
OB_FUNCTION T tgamma(T x) {
  const M negative = OB_BITS(x, I) < (I)(0);
  const T a = fabs(x), y = a > (T)(200) ? (T)(200) : a;
  T shifted, shifted_rest, product_rest, rest, low, sin_rest, divisor_rest;
  I n, turns;
  const T product = ob_rising(y, &shifted, &shifted_rest, &product_rest);
  const T logarithm = ob_stirling(shifted, shifted_rest, &rest);
  const T parts = ob_exp_parts(logarithm, rest, &n, &low);
  const T high = ob_quick_sum(parts, low, &low);
  const T part = ob_half_turns(y, &turns);
  const T angle = ob_two_product(part, (T)(OB_PI_DOUBLE), &sin_rest);
  const T sine = ob_turned_sin(angle, ob_mad(part, (T)(OB_PI_REST_DOUBLE), sin_rest), turns);
  /* -pi product / (y sin(pi y) gamma(y + k)), or gamma(y + k) / product. */
  const T pi = (T)(OB_PI_DOUBLE), factor = y * sine;
  const T bottom = ob_two_product(factor, high, &divisor_rest);
  divisor_rest = ob_mad(factor, low, divisor_rest);
  T quotient_rest, top_rest;
  const T top = ob_two_product(pi, product, &top_rest);
  top_rest = ob_mad(pi, product_rest, ob_mad((T)(OB_PI_REST_DOUBLE), product, top_rest));
  const T quotient = ob_two_quotient(negative ? -top : high, negative ? -top_rest : low,
                                     negative ? bottom : product,
                                     negative ? divisor_rest : product_rest, &quotient_rest);
  T result = ob_scale(quotient + quotient_rest, negative ? -n : n);
  result = a < (T)(0x1p-60f) ? (T)(1) / x : result;
  const T below = floor(x) * (T)(0.5f);
  const T zero = rint(below) != below ? -(T)(0) : (T)(0);
  result = a > (T)(190) ? (negative ? zero : OB_INFINITE) : result;
  result = negative & (a >= (T)(0x1p-60f)) & (rint(a) == a) ? OB_NOT_A_NUMBER : result;
  result = negative & (a == OB_INFINITE) ? OB_NOT_A_NUMBER : result;
  return x != x ? x : result;
}

/* ln(gamma(y)) for y > 0, all cases at once; exact to the last bits also at 1 and 2. */
OB_FUNCTION T ob_lgamma_positive(T y) {
  /* Up to 8: from [3/2, 5/2) by factors; below, by ln(y) and ln(1 + ...). */
  const M tiny = y < (T)(0.5f), low = y < (T)(1.5f), far = y >= (T)(8);
  T base = far ? (T)(2) : y, product = (T)(1);
  for (int i = 0; i < 6; ++i) {
    const M more = base >= (T)(2.5f);
    base = more ? base - (T)(1) : base;
    product = more ? product * base : product;
  }
  const T f = tiny ? y : low ? y - (T)(1) : base - (T)(2);
  const T near = f * OB_POLYNOMIAL(f, OB_LGAMMA_DOUBLE);
  T log_rest, one_rest, stirling_rest;
  const T one = ob_log1p_parts(low ? f : (T)(0), (T)(0), &one_rest);
  const T logarithm = ob_log_parts(tiny ? y : product, &log_rest);
  const T middle = near + (logarithm + log_rest);
  const T below = (near - one) - one_rest;
  const T small = below - (logarithm + log_rest);
  const M huge = y > (T)(0x1p50f);
  const T sum = ob_stirling(far & !huge ? y : (T)(8), (T)(0), &stirling_rest);
  T large_rest;
  const T large = ob_log_parts(huge ? y : (T)(8), &large_rest);
  const T beyond = y * ((large + large_rest) - (T)(1));
  return huge   ? (y == OB_INFINITE ? y : beyond)
         : far  ? sum + stirling_rest
         : tiny ? small
         : low  ? below
                : middle;
}

/* For x < 0: ln(pi / |x sin(pi x)|) - ln(gamma(-x)). */
OB_FUNCTION T lgamma_r(T x, N* sign) {
  const M negative = OB_BITS(x, I) < (I)(0);
  const T a = fabs(x);
  const T positive = ob_lgamma_positive(a == (T)(0) ? (T)(1) : a);
  I turns;
  T rest;
  const T part = ob_half_turns(a < OB_INFINITE ? a : (T)(0), &turns);
  const T angle = ob_two_product(part, (T)(OB_PI_DOUBLE), &rest);
  const T sine = fabs(ob_turned_sin(angle, rest, turns));
  const T reflected = log((T)(OB_PI_DOUBLE) / (a * sine)) - positive;
  T result = negative ? reflected : positive;
  result = a < (T)(0x1p-60f) ? -log(a) : result;
  result = negative & (rint(a) == a) ? OB_INFINITE : result;
  result = a == (T)(0) ? OB_INFINITE : result;
  const T below = floor(x);
  const M flip = negative & ((rint(below * (T)(0.5f)) != below * (T)(0.5f)) | (a == (T)(0)));
  *sign = OB_TO(flip ? (I)(-1) : (I)(1), N);
  return x != x ? x : a == OB_INFINITE ? OB_INFINITE : result;
}

#else

OB_FUNCTION T tgamma(T x) { return OB_TO(tgamma(OB_TO(x, D)), T); }
OB_FUNCTION T lgamma_r(T x, N* sign) { return OB_TO(lgamma_r(OB_TO(x, D), sign), T); }

#endif

OB_FUNCTION T lgamma(T x) {
  N sign;
  return lgamma_r(x, &sign);
}
