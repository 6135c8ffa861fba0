/* Trigonometric functions and their inverses. */

/* ---- sin, cos, tan, sincos, and those of x pi: x = n pi / 2 + r + rest, |r| <= pi / 4 ---- */

#if OB_IS_DOUBLE

#if OB_IS_NUMBER
/*
 * For 2^20 <= |x| < infinity: x modulo 2 pi by the relevant bits of 2 / pi. (M. H. Payne and R. N.
 * Hanek, "Radian reduction for trigonometric functions", 1983.)
 */
__constant ulong ob_two_over_pi[] = {0, OB_TWO_OVER_PI_BITS};

static __attribute__((noinline, unused)) int ob_huge_angle(double x, double* r, double* rest) {
  const ulong bits = OB_BITS(fabs(x), ulong);
  const ulong mantissa = (bits & 0xfffffffffffffUL) | 0x10000000000000UL;
  /* x = mantissa 2^e. Earlier bits of 2 / pi give multiples of 4; the table has 64 zeros first. */
  const int e = (int)(bits >> 52) - 1075, first = e - 2 + 64;
  const int word = first >> 6, shift = first & 63;
  ulong window[3];
  for (int i = 0; i < 3; ++i) {
    const ulong high = ob_two_over_pi[word + i], low = ob_two_over_pi[word + i + 1];
    window[i] = shift == 0 ? high : (high << shift) | (low >> (64 - shift));
  }
  /* The low 192 bits of the product: x 2 / pi modulo 4, times 2^190. */
  const ulong low = mantissa * window[2], carry = mul_hi(mantissa, window[2]);
  const ulong middle = mantissa * window[1] + carry;
  const ulong top =
      mantissa * window[0] + mul_hi(mantissa, window[1]) + (middle < carry ? 1UL : 0UL);
  const ulong n = (top + (1UL << 61)) >> 62;
  ulong a = top - (n << 62), b = middle, c = low;
  const int negative = (long)a < 0;
  if (negative) {
    c = 0 - c;
    b = ~b + (c == 0 ? 1UL : 0UL);
    a = ~a + (b == 0 && c == 0 ? 1UL : 0UL);
  }
  int zeros = a == 0 ? 64 : (int)clz(a);
  if (a == 0) {
    a = b;
    b = c;
    c = 0;
    zeros += a == 0 ? 0 : (int)clz(a);
  }
  const int left = zeros & 63;
  if (left != 0) {
    a = (a << left) | (b >> (64 - left));
    b = (b << left) | (c >> (64 - left));
  }
  /* (a 2^64 + b) 2^-(126 + zeros), as a sum of two. */
  const double high = (double)(a >> 11) * ob_power_of_2(11L - 62 - zeros);
  const double more = (double)(((a & 0x7ffUL) << 42) | (b >> 22)) * ob_power_of_2(-104L - zeros);
  double product_rest;
  const double product = ob_two_product(high, OB_HALF_PI_DOUBLE, &product_rest);
  product_rest += high * OB_HALF_PI_REST_DOUBLE + more * OB_HALF_PI_DOUBLE;
  const int turned = negative != (x < 0);
  *r = turned ? -product : product;
  *rest = turned ? -product_rest : product_rest;
  return (int)(x < 0 ? 0 - n : n) & 3;
}
#endif

/* Huge lanes one by one; r is NaN for infinite x or NaN. */
OB_FUNCTION void ob_huge_angles(T x, T* r, T* rest, I* n) {
  for (int i = 0; i < OB_LANES; ++i) {
    const double one = OB_LANE(x, i);
    double one_r = one - one, one_rest = 0;
    long quarters = 0;
    if (fabs(one) < 0x1p20f) continue;
    if (fabs(one) < __builtin_inff()) quarters = ob_huge_angle(one, &one_r, &one_rest);
    OB_LANE(*r, i) = one_r;
    OB_LANE(*rest, i) = one_rest;
    OB_LANE(*n, i) = quarters;
  }
}

/* pi / 2 in three parts of 33 bits, whose products with n < 2^20 are exact, and a remainder. */
OB_FUNCTION T ob_angle(T x, I* n, T* rest) {
  const T whole = ob_nearest(x * (T)(OB_TWO_OVER_PI), n);
  T a_rest, b_rest, c_rest;
  const T a = ob_mad(-whole, (T)(OB_HALF_PI_A), x);
  const T b = ob_two_sum(a, whole * -(T)(OB_HALF_PI_B), &b_rest);
  const T c = ob_two_sum(b, whole * -(T)(OB_HALF_PI_C), &c_rest);
  a_rest = ob_mad(-whole, (T)(OB_HALF_PI_AFTER_C), b_rest + c_rest);
  T r = ob_quick_sum(c, a_rest, rest);
  if (OB_ANY(!(fabs(x) < (T)(0x1p20f)))) ob_huge_angles(x, &r, rest, n);
  return r;
}

/* sin and cos of r + rest, each as a sum of two. */
OB_FUNCTION T ob_sin_near(T r, T rest, T* low) {
  const T z = r * r;
  *low = ob_mad(r * z, OB_POLYNOMIAL(z, OB_SIN_DOUBLE), ob_mad(z * (T)(-0.5f), rest, rest));
  return r;
}
OB_FUNCTION T ob_cos_near(T r, T rest, T* low) {
  T square_rest, sum_rest;
  const T z = ob_two_product(r, r, &square_rest);
  const T sum = ob_quick_sum((T)(1), z * (T)(-0.5f), &sum_rest);
  const T more = ob_mad(z * z, OB_POLYNOMIAL(z, OB_COS_DOUBLE), -r * rest);
  *low = sum_rest + ob_mad(square_rest, (T)(-0.5f), more);
  return sum;
}
/* For float vectors: the sums, within about 2^-36. */
OB_FUNCTION T ob_short_sin(T r) {
  const T z = r * r;
  return ob_mad(r * z, OB_POLYNOMIAL(z, OB_SIN_SHORT), r);
}
OB_FUNCTION T ob_short_cos(T r) {
  const T z = r * r;
  return ob_mad(z * z, OB_POLYNOMIAL(z, OB_COS_SHORT), ob_mad(z, (T)(-0.5f), (T)(1)));
}
OB_FUNCTION T ob_short_angle(T x, I* n) {
  const T whole = ob_nearest(x * (T)(OB_TWO_OVER_PI), n);
  T rest;
  T r = ob_mad(-whole, (T)(OB_HALF_PI_AFTER_A), ob_mad(-whole, (T)(OB_HALF_PI_A), x));
  if (OB_ANY(!(fabs(x) < (T)(0x1p20f)))) ob_huge_angles(x, &r, &rest, n);
  return r;
}

/* The sine, the cosine or their quotient, after n quarters of a turn. */
OB_FUNCTION T ob_turned_sin(T r, T rest, I n) {
  T s_low, c_low;
  const T s = ob_sin_near(r, rest, &s_low), c = ob_cos_near(r, rest, &c_low);
  const T found = (n & (I)(1)) != (I)(0) ? c + c_low : s + s_low;
  return (n & (I)(2)) != (I)(0) ? -found : found;
}
OB_FUNCTION T ob_turned_tan(T r, T rest, I n) {
  T s_low, c_low, low;
  const T s = ob_sin_near(r, rest, &s_low), c = ob_cos_near(r, rest, &c_low);
  const M odd = (n & (I)(1)) != (I)(0);
  const T sine = ob_quick_sum(s, s_low, &s_low), cosine = ob_quick_sum(c, c_low, &c_low);
  const T high = ob_two_quotient(odd ? -cosine : sine, odd ? -c_low : s_low, odd ? sine : cosine,
                                 odd ? s_low : c_low, &low);
  /* Zeros and poles, which only multiples of pi have: the sign is that of the half turn. */
  const T special = odd ? OB_INFINITE : (T)(0);
  const T turned = (n & (I)(2)) != (I)(0) ? -special : special;
  return s == (T)(0) ? turned : fabs(high) < OB_INFINITE ? high + low : high;
}
OB_FUNCTION T ob_short_turned_sin(T r, I n) {
  const T found = (n & (I)(1)) != (I)(0) ? ob_short_cos(r) : ob_short_sin(r);
  return (n & (I)(2)) != (I)(0) ? -found : found;
}
OB_FUNCTION T ob_short_turned_tan(T r, I n) {
  const M odd = (n & (I)(1)) != (I)(0);
  const T s = ob_short_sin(r), c = ob_short_cos(r);
  const T special = odd ? OB_INFINITE : (T)(0);
  const T turned = (n & (I)(2)) != (I)(0) ? -special : special;
  return s == (T)(0) ? turned : (odd ? -c : s) / (odd ? s : c);
}

/* x in halves of pi: exact for any x. */
OB_FUNCTION T ob_half_turns(T x, I* n) {
  const T turned = x - (T)(2) * rint(x * (T)(0.5f));
  return turned - ob_nearest(turned * (T)(2), n) * (T)(0.5f);
}

#define OB_TRIGONOMETRIC \
  I n;                   \
  T rest;                \
  const T r = ob_angle(x, &n, &rest);
#define OB_OF_PI                                              \
  I n;                                                        \
  T rest;                                                     \
  const T part = ob_half_turns(x, &n);                        \
  const T r = ob_two_product(part, (T)(OB_PI_DOUBLE), &rest); \
  rest = ob_mad(part, (T)(OB_PI_REST_DOUBLE), rest);
#define OB_SINE(quarters) ob_turned_sin(r, rest, n + (I)(quarters))
#define OB_TANGENT ob_turned_tan(r, rest, n)

#else

#define OB_TRIGONOMETRIC      \
  OB_PASTE(long, OB_WIDTH) n; \
  const D r = ob_short_angle(OB_TO(x, D), &n);
#define OB_OF_PI              \
  OB_PASTE(long, OB_WIDTH) n; \
  const D r = ob_half_turns(OB_TO(x, D), &n) * (D)(OB_PI_DOUBLE);
#define OB_SINE(quarters) OB_TO(ob_short_turned_sin(r, n + (OB_PASTE(long, OB_WIDTH))(quarters)), T)
#define OB_TANGENT OB_TO(ob_short_turned_tan(r, n), T)

#endif

/* Tiny arguments are their own sine: preserves -0 and denormal numbers. */
#undef OB_OR_TINY
#define OB_OR_TINY(x, result) (fabs(x) < (T)(0x1p-30f) ? (x) : (result))

OB_FUNCTION T sin(T x) {
  OB_TRIGONOMETRIC
  return OB_OR_TINY(x, OB_SINE(0));
}
OB_FUNCTION T cos(T x) {
  OB_TRIGONOMETRIC
  return OB_SINE(1);
}
OB_FUNCTION T tan(T x) {
  OB_TRIGONOMETRIC
  return OB_OR_TINY(x, OB_TANGENT);
}
OB_FUNCTION T sincos(T x, T* cosine) {
  OB_TRIGONOMETRIC
  *cosine = OB_SINE(1);
  return OB_OR_TINY(x, OB_SINE(0));
}
OB_FUNCTION T sinpi(T x) {
  OB_OF_PI
  const T result = OB_SINE(0);
  return result == (T)(0) ? copysign(result, x) : result;
}
OB_FUNCTION T cospi(T x) {
  OB_OF_PI
  const T result = OB_SINE(1);
  return result == (T)(0) ? fabs(result) : result;
}
OB_FUNCTION T tanpi(T x) {
  OB_OF_PI
  const T result = OB_TANGENT;
  return (result == (T)(0)) & (OB_BITS(x, I) < (I)(0)) ? -result : result;
}
#undef OB_TRIGONOMETRIC
#undef OB_OF_PI
#undef OB_SINE
#undef OB_TANGENT

/* ---- asin, acos, atan, atan2, and the same divided by pi ---- */

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
