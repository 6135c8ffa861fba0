/* asin, acos, atan, atan2, and the same divided by pi. */

#if OB_IS_DOUBLE

/*
 * asin by half the angle: asin(a) = t + t p for a <= 1/2, else pi / 2 - 2 (t + rest + t p), with t
 * = sqrt((1 - a) / 2). `more` is rest + t p.
 */
OB_FUNCTION T ob_asin_parts(T a, M far, T* more) {
  const T z = far ? ((T)(1) - a) * (T)(0.5f) : a * a;
  const T root = sqrt(z), t = far ? root : a;
  T back_rest;
  const T back = ob_two_product(root, root, &back_rest);
  const T rest = far & (root > (T)(0)) ? ((z - back) - back_rest) / ((T)(2) * root) : (T)(0);
  *more = ob_mad(t * z, OB_POLYNOMIAL(z, OB_ASIN_DOUBLE), rest);
  return t;
}
OB_FUNCTION T ob_asin_sum(T x, T* rest) {
  const T a = fabs(x);
  const M far = a > (T)(0.5f);
  T more, sum_rest;
  const T t = ob_asin_parts(a, far, &more);
  const T sum = ob_quick_sum((T)(OB_HALF_PI_DOUBLE), t * (T)(-2), &sum_rest);
  const T low = sum_rest + ob_mad(more, (T)(-2), (T)(OB_HALF_PI_REST_DOUBLE));
  const M negative = OB_BITS(x, I) < (I)(0);
  const T found = far ? sum : t, found_rest = far ? low : more;
  *rest = negative ? -found_rest : found_rest;
  return negative ? -found : found;
}
/* pi / 2 - asin(x), pi - 2 (t + more), or 2 (t + more). */
OB_FUNCTION T ob_acos_sum(T x, T* rest) {
  const T a = fabs(x);
  const M far = a > (T)(0.5f), negative = OB_BITS(x, I) < (I)(0);
  T more, sum_rest;
  const T t = ob_asin_parts(a, far, &more);
  const T angle = far ? (T)(2) * t : negative ? -t : t;
  const T angle_rest = far ? (T)(2) * more : negative ? -more : more;
  const T size = far ? (T)(OB_PI_DOUBLE) : (T)(OB_HALF_PI_DOUBLE);
  const T size_rest = far ? (T)(OB_PI_REST_DOUBLE) : (T)(OB_HALF_PI_REST_DOUBLE);
  const T sum = ob_quick_sum(size, -angle, &sum_rest);
  const M near_one = x > (T)(0.5f);
  *rest = near_one ? angle_rest : sum_rest + (size_rest - angle_rest);
  return near_one ? angle : sum;
}

/*
 * The angle of a point in all four quadrants: of the smaller part divided by the larger, minus pi /
 * 4 if they are close, then rotated back by eighths of a turn.
 */
OB_FUNCTION T ob_atan2_sum(T y, T x, T* low) {
  const T ay = fabs(y), ax = fabs(x);
  const M swap = ay > ax, both = (ay == OB_INFINITE) & (ax == OB_INFINITE);
  T larger = swap ? ay : ax, smaller = swap ? ax : ay;
  const M infinite = larger == OB_INFINITE;
  smaller = infinite ? (both ? (T)(1) : (T)(0)) : smaller;
  larger = infinite | (larger == (T)(0)) ? (T)(1) : larger;
  /* Scaled away from overflow of products and underflow of their rounding errors. */
  const M great = larger > (T)(K(SQUARE_ROOT_LARGEST)), small = larger < (T)(K(SQUARE_ROOT_LEAST));
  const T factor = great ? (T)(K(SQUARE_ROOT_LEAST)) : small ? (T)(K(SQUARE_ROOT_LARGEST)) : (T)(1);
  larger *= factor;
  smaller *= factor;
  const M near = smaller > larger * (T)(0.41421356f);
  T top_rest, bottom_rest, rest;
  const T difference = ob_two_sum(smaller, -larger, &top_rest);
  const T sum = ob_two_sum(larger, smaller, &bottom_rest);
  const T t = ob_two_quotient(near ? difference : smaller, near ? top_rest : (T)(0),
                              near ? sum : larger, near ? bottom_rest : (T)(0), &rest);
  const T z = t * t;
  const T more = ob_mad(t * z, OB_POLYNOMIAL(z, OB_ATAN_DOUBLE), rest);
  T eighths = near ? (T)(1) : (T)(0);
  const M left = OB_BITS(x, I) < (I)(0);
  eighths = swap ? (T)(2) - eighths : eighths;
  eighths = left ? (T)(4) - eighths : eighths;
  T base_rest, sum_rest;
  const T base = ob_two_product(eighths, (T)(OB_QUARTER_PI_DOUBLE), &base_rest);
  base_rest = ob_mad(eighths, (T)(OB_QUARTER_PI_REST_DOUBLE), base_rest);
  const M back = swap != left;
  const T angle = ob_two_sum(base, back ? -t : t, &sum_rest);
  const M only = eighths == (T)(0), down = OB_BITS(y, I) < (I)(0);
  const T found = only ? t : angle;
  const T found_rest = only ? more : sum_rest + (base_rest + (back ? -more : more));
  *low = down ? -found_rest : found_rest;
  return (x != x) | (y != y) ? x + y : down ? -found : found;
}

/* Results, and results / pi. The low part is invalid beside NaN and zeros. */
OB_FUNCTION T ob_sum_of(T sum, T rest) { return sum == (T)(0) ? sum : sum + rest; }
OB_FUNCTION T ob_by_pi(T sum, T rest) {
  T product_rest;
  const T product = ob_two_product(sum, (T)(OB_INVERSE_PI_DOUBLE), &product_rest);
  product_rest = ob_mad(sum, (T)(OB_INVERSE_PI_REST_DOUBLE), product_rest);
  return ob_sum_of(product, ob_mad(rest, (T)(OB_INVERSE_PI_DOUBLE), product_rest));
}
#undef OB_RESULT
#define OB_RESULT(name, parameters, sum, finish) \
  OB_FUNCTION T name parameters {                \
    T rest;                                      \
    const T found = sum;                         \
    return finish(found, rest);                  \
  }
OB_RESULT(asin, (T x), ob_asin_sum(x, &rest), ob_sum_of)
OB_RESULT(acos, (T x), ob_acos_sum(x, &rest), ob_sum_of)
OB_RESULT(atan, (T x), ob_atan2_sum(x, (T)(1), &rest), ob_sum_of)
OB_RESULT(atan2, (T y, T x), ob_atan2_sum(y, x, &rest), ob_sum_of)
OB_RESULT(asinpi, (T x), ob_asin_sum(x, &rest), ob_by_pi)
OB_RESULT(acospi, (T x), ob_acos_sum(x, &rest), ob_by_pi)
OB_RESULT(atanpi, (T x), ob_atan2_sum(x, (T)(1), &rest), ob_by_pi)
OB_RESULT(atan2pi, (T y, T x), ob_atan2_sum(y, x, &rest), ob_by_pi)

/* For float vectors, within about 2^-36. */
OB_FUNCTION T ob_short_asin(T x) {
  const T a = fabs(x);
  const M far = a > (T)(0.5f);
  const T z = far ? ((T)(1) - a) * (T)(0.5f) : a * a, t = far ? sqrt(z) : a;
  const T near = ob_mad(t * z, OB_POLYNOMIAL(z, OB_ASIN_SHORT), t);
  return copysign(far ? (T)(OB_HALF_PI_DOUBLE) - (T)(2) * near : near, x);
}
OB_FUNCTION T ob_short_acos(T x) {
  const T a = fabs(x);
  const M far = a > (T)(0.5f);
  const T z = far ? ((T)(1) - a) * (T)(0.5f) : a * a, t = far ? sqrt(z) : x;
  const T near = ob_mad(t * z, OB_POLYNOMIAL(z, OB_ASIN_SHORT), t);
  const T twice = (T)(2) * near;
  const T outside = x > (T)(0) ? twice : (T)(OB_PI_DOUBLE)-twice;
  return far ? outside : (T)(OB_HALF_PI_DOUBLE)-near;
}
OB_FUNCTION T ob_short_atan2(T y, T x) {
  const T ay = fabs(y), ax = fabs(x);
  const M swap = ay > ax, both = (ay == OB_INFINITE) & (ax == OB_INFINITE);
  T larger = swap ? ay : ax, smaller = swap ? ax : ay;
  smaller = both ? (T)(1) : smaller;
  larger = both | (larger == (T)(0)) ? (T)(1) : larger;
  const M near = smaller > larger * (T)(0.41421356f);
  const T t = (near ? smaller - larger : smaller) / (near ? larger + smaller : larger), z = t * t;
  const T part = ob_mad(t * z, OB_POLYNOMIAL(z, OB_ATAN_SHORT), t);
  T angle = near ? part + (T)(OB_QUARTER_PI_DOUBLE) : part;
  angle = swap ? (T)(OB_HALF_PI_DOUBLE)-angle : angle;
  angle = OB_BITS(x, I) < (I)(0) ? (T)(OB_PI_DOUBLE)-angle : angle;
  return x != x || y != y ? x + y : copysign(angle, y);
}

#else

#define OB_BY_DOUBLE(name, inner, factor) \
  OB_FUNCTION T name(T x) { return OB_TO(inner(OB_TO(x, D)) factor, T); }
OB_BY_DOUBLE(asin, ob_short_asin, )
OB_BY_DOUBLE(acos, ob_short_acos, )
OB_BY_DOUBLE(asinpi, ob_short_asin, *(D)(OB_INVERSE_PI_DOUBLE))
OB_BY_DOUBLE(acospi, ob_short_acos, *(D)(OB_INVERSE_PI_DOUBLE))
OB_FUNCTION T atan2(T y, T x) { return OB_TO(ob_short_atan2(OB_TO(y, D), OB_TO(x, D)), T); }
OB_FUNCTION T atan2pi(T y, T x) {
  return OB_TO(ob_short_atan2(OB_TO(y, D), OB_TO(x, D)) * (D)(OB_INVERSE_PI_DOUBLE), T);
}
OB_FUNCTION T atan(T x) { return atan2(x, (T)(1)); }
OB_FUNCTION T atanpi(T x) { return atan2pi(x, (T)(1)); }

#endif
