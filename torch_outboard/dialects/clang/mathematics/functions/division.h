/*
 * fmod, remainder, remquo: exact. Quotients that fit in a mantissa are computed by division; larger
 * ones per element, bit by bit.
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
