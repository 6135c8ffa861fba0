/* sin, cos, tan, sincos, and those of x pi. x = n pi / 2 + r + rest, |r| <= pi / 4. */

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
