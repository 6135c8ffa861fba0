/* sinh, cosh, tanh and their inverses. */

OB_FUNCTION T tanh(T x) {
  const T a = fabs(x), z = x * x;
  const T near = ob_mad(x * z, OB_POLYNOMIAL(z, K(TANH)), x);
  /* 1 - 2 / (exp(2 a) + 1) */
  const T power = exp((a > (T)(22) ? (T)(22) : a) * (T)(2));
  const T far = copysign((T)(1) - (T)(2) / (power + (T)(1)), x);
  return z < (T)(0.72f) ? (x == (T)(0) ? x : near) : x != x ? x : far;
}

#if OB_IS_DOUBLE

/* exp(a) / 2 as high + low, and exp(-a) / 2, both to be scaled by 2^n; a >= 0. */
OB_FUNCTION T ob_half_exp(T a, T* low, T* inverse, I* n) {
  const T bounded = a > (T)(720) ? (T)(720) : a;
  const T high = ob_exp_parts(bounded, (T)(0), n, low);
  *n -= (I)(1);
  /* Far below the last bit it may be inexact. */
  *inverse = ob_scale((T)(0.25f) / (high + *low), max((I)(-2) * *n, (I)(-200)));
  return high;
}
OB_FUNCTION T sinh(T x) {
  const T a = fabs(x), z = x * x;
  T low, inverse, rest;
  I n;
  const T high = ob_half_exp(a, &low, &inverse, &n);
  const T sum = ob_two_sum(high, -inverse, &rest);
  const T far = copysign(ob_scale(sum + (rest + low), n), x);
  const T near = ob_mad(x * z, OB_POLYNOMIAL(z, OB_SINH_DOUBLE), x);
  return a < (T)(1) ? (x == (T)(0) ? x : near) : x != x ? x : far;
}
OB_FUNCTION T cosh(T x) {
  T low, inverse, rest;
  I n;
  const T high = ob_half_exp(fabs(x), &low, &inverse, &n);
  const T sum = ob_two_sum(high, inverse, &rest);
  return x != x ? x : ob_scale(sum + (rest + low), n);
}

/* ln(1 + p) with p = a + a^2 / (1 + sqrt(a^2 + 1)); above 2^28, ln(2 a). */
OB_FUNCTION T asinh(T x) {
  const T a = fabs(x);
  const M huge = a > (T)(0x1p28f);
  const T bounded = huge ? (T)(1) : a;
  T square_rest, sum_rest, back_rest, below_rest, quotient_rest, p_rest, rest, far_rest;
  const T square = ob_two_product(bounded, bounded, &square_rest);
  const T sum = ob_two_sum(square, (T)(1), &sum_rest);
  const T root = sqrt(sum), back = ob_two_product(root, root, &back_rest);
  const T error = ((sum - back) - back_rest) + (sum_rest + square_rest);
  const T below = ob_quick_sum(root, (T)(1), &below_rest);
  const T quotient = ob_two_quotient(square, square_rest, below,
                                     below_rest + error / ((T)(2) * root), &quotient_rest);
  const T p = ob_two_sum(bounded, quotient, &p_rest);
  const T near = ob_log1p_parts(p, p_rest + quotient_rest, &rest);
  const T far = ob_log_parts(a, &far_rest) + (far_rest + (T)(OB_NATURAL_2_DOUBLE));
  const T result = huge ? (a == OB_INFINITE ? a : far) : near + rest;
  return x != x || a < (T)(0x1p-30f) ? x : copysign(result, x);
}
/* ln(1 + p) with p = t + sqrt(2 t + t^2), t = x - 1. */
OB_FUNCTION T acosh(T x) {
  const M huge = x > (T)(0x1p28f);
  const T t = huge ? (T)(1) : x - (T)(1);
  T square_rest, sum_rest, back_rest, p_rest, rest, far_rest;
  const T square = ob_two_product(t, t, &square_rest);
  const T sum = ob_two_sum((T)(2) * t, square, &sum_rest);
  const T root = sqrt(sum), back = ob_two_product(root, root, &back_rest);
  const T error = ((sum - back) - back_rest) + (sum_rest + square_rest);
  const T root_rest = root > (T)(0) ? error / ((T)(2) * root) : (T)(0);
  const T p = ob_two_sum(root, t, &p_rest);
  const T near = ob_log1p_parts(p, p_rest + root_rest, &rest);
  const T far = ob_log_parts(x, &far_rest) + (far_rest + (T)(OB_NATURAL_2_DOUBLE));
  const T result = huge ? (x == OB_INFINITE ? x : far) : near + rest;
  return x >= (T)(1) ? result : OB_NOT_A_NUMBER;
}
/* ln(1 + 2 a / (1 - a)) / 2 */
OB_FUNCTION T atanh(T x) {
  const T a = fabs(x);
  T below_rest, quotient_rest, rest;
  const T below = ob_two_sum((T)(1), -a, &below_rest);
  const T quotient = ob_two_quotient((T)(2) * a, (T)(0), below, below_rest, &quotient_rest);
  const T sum = ob_log1p_parts(quotient, quotient_rest, &rest);
  const T result = a == (T)(1) ? OB_INFINITE : (sum + rest) * (T)(0.5f);
  return a <= (T)(1) ? (a < (T)(0x1p-30f) ? x : copysign(result, x)) : OB_NOT_A_NUMBER;
}

/* For float vectors: sinh(x) for |x| < 1, within about 2^-36. */
OB_FUNCTION T ob_short_sinh_near(T x) {
  const T z = x * x;
  return ob_mad(x * z, OB_POLYNOMIAL(z, OB_SINH_SHORT), x);
}

#else

OB_FUNCTION T sinh(T x) {
  const D d = OB_TO(x, D);
  const D up = ob_short_exp(ob_clamped(d, (D)(-120), (D)(120)));
  const T far = OB_TO((up - (D)(1) / up) * (D)(0.5f), T);
  const T near = OB_TO(ob_short_sinh_near(d), T);
  return fabs(x) < (T)(1) ? (x == (T)(0) ? x : near) : x != x ? x : far;
}
OB_FUNCTION T cosh(T x) {
  const D up = ob_short_exp(ob_clamped(OB_TO(x, D), (D)(-120), (D)(120)));
  return x != x ? x : OB_TO((up + (D)(1) / up) * (D)(0.5f), T);
}
OB_FUNCTION T asinh(T x) {
  const D a = OB_TO(fabs(x), D), square = a * a;
  const T near = OB_TO(a - a * square * (D)(OB_THIRD) * (D)(0.5f), T);
  const T far = OB_TO(ob_short_log(a + sqrt(square + (D)(1))), T);
  const T result = fabs(x) < (T)(0x1p-10f) ? near : far;
  return fabs(x) < OB_INFINITE ? copysign(result, x) : x;
}
OB_FUNCTION T acosh(T x) {
  const D d = OB_TO(x, D);
  const T result = OB_TO(ob_short_log(d + sqrt((d - (D)(1)) * (d + (D)(1)))), T);
  return x >= (T)(1) ? (x == OB_INFINITE ? x : result) : OB_NOT_A_NUMBER;
}
OB_FUNCTION T atanh(T x) {
  const D a = OB_TO(fabs(x), D);
  const T near = OB_TO(a + a * a * a * (D)(OB_THIRD), T);
  const T far = OB_TO(ob_short_log(((D)(1) + a) / ((D)(1) - a)) * (D)(0.5f), T);
  const T result = fabs(x) < (T)(0x1p-10f) ? near : fabs(x) == (T)(1) ? OB_INFINITE : far;
  return fabs(x) <= (T)(1) ? copysign(result, x) : OB_NOT_A_NUMBER;
}

#endif
