/* Vectors of two and three, and vectors with scalars. */

/*
 * Vectors of n elements by those of four: of three elements, and float2, for which clang 22
 * generates wrong code on processors with AVX-512. `wide`: the elements that fill four; `back`:
 * those of the result.
 */
#define OB_BY_FOUR_1(name, T, n, wide, back) \
  OB_FUNCTION T##n name(T##n x) { return name(x.wide).back; }
#define OB_BY_FOUR_2(name, T, n, wide, back) \
  OB_FUNCTION T##n name(T##n x, T##n y) { return name(x.wide, y.wide).back; }
#define OB_BY_FOUR_3(name, T, n, wide, back) \
  OB_FUNCTION T##n name(T##n x, T##n y, T##n z) { return name(x.wide, y.wide, z.wide).back; }
#define OB_BY_FOUR_INTEGER(name, T, n, wide, back) \
  OB_FUNCTION T##n name(T##n x, int##n y) { return name(x.wide, y.wide).back; }
#define OB_BY_FOUR_POINTER(name, T, U, n, wide, back) \
  OB_FUNCTION T##n name(T##n x, U##n* y) {            \
    U##4 second;                                      \
    const T##4 first = name(x.wide, &second);         \
    *y = second.back;                                 \
    return first.back;                                \
  }
/* clang-format off */
#define OB_UNARY(DEFINE, ...) \
  DEFINE(exp, __VA_ARGS__) DEFINE(exp2, __VA_ARGS__) DEFINE(exp10, __VA_ARGS__) \
  DEFINE(expm1, __VA_ARGS__) DEFINE(log, __VA_ARGS__) DEFINE(log2, __VA_ARGS__) \
  DEFINE(log10, __VA_ARGS__) DEFINE(log1p, __VA_ARGS__) DEFINE(sin, __VA_ARGS__) \
  DEFINE(cos, __VA_ARGS__) DEFINE(tan, __VA_ARGS__) DEFINE(sinpi, __VA_ARGS__) \
  DEFINE(cospi, __VA_ARGS__) DEFINE(tanpi, __VA_ARGS__) DEFINE(asin, __VA_ARGS__) \
  DEFINE(acos, __VA_ARGS__) DEFINE(atan, __VA_ARGS__) DEFINE(asinpi, __VA_ARGS__) \
  DEFINE(acospi, __VA_ARGS__) DEFINE(atanpi, __VA_ARGS__) DEFINE(sinh, __VA_ARGS__) \
  DEFINE(cosh, __VA_ARGS__) DEFINE(tanh, __VA_ARGS__) DEFINE(asinh, __VA_ARGS__) \
  DEFINE(acosh, __VA_ARGS__) DEFINE(atanh, __VA_ARGS__) DEFINE(erf, __VA_ARGS__) \
  DEFINE(erfc, __VA_ARGS__) DEFINE(lgamma, __VA_ARGS__) DEFINE(tgamma, __VA_ARGS__) \
  DEFINE(sqrt, __VA_ARGS__) DEFINE(rsqrt, __VA_ARGS__) DEFINE(cbrt, __VA_ARGS__) \
  DEFINE(logb, __VA_ARGS__) DEFINE(rint, __VA_ARGS__) DEFINE(round, __VA_ARGS__) \
  DEFINE(trunc, __VA_ARGS__) DEFINE(floor, __VA_ARGS__) DEFINE(ceil, __VA_ARGS__) \
  DEFINE(fabs, __VA_ARGS__)
#define OB_BINARY(DEFINE, ...) \
  DEFINE(pow, __VA_ARGS__) DEFINE(powr, __VA_ARGS__) DEFINE(atan2, __VA_ARGS__) \
  DEFINE(atan2pi, __VA_ARGS__) DEFINE(hypot, __VA_ARGS__) DEFINE(fmod, __VA_ARGS__) \
  DEFINE(remainder, __VA_ARGS__) DEFINE(nextafter, __VA_ARGS__) DEFINE(copysign, __VA_ARGS__) \
  DEFINE(fdim, __VA_ARGS__) DEFINE(fmax, __VA_ARGS__) DEFINE(fmin, __VA_ARGS__) \
  DEFINE(maxmag, __VA_ARGS__) DEFINE(minmag, __VA_ARGS__)
#define OB_BY_FOUR(T, n, wide, back) \
  OB_UNARY(OB_BY_FOUR_1, T, n, wide, back) \
  OB_BINARY(OB_BY_FOUR_2, T, n, wide, back) \
  OB_BY_FOUR_3(fma, T, n, wide, back) \
  OB_BY_FOUR_3(mad, T, n, wide, back) \
  OB_BY_FOUR_INTEGER(ldexp, T, n, wide, back) \
  OB_BY_FOUR_INTEGER(pown, T, n, wide, back) \
  OB_BY_FOUR_INTEGER(rootn, T, n, wide, back) \
  OB_BY_FOUR_POINTER(sincos, T, T, n, wide, back) \
  OB_BY_FOUR_POINTER(modf, T, T, n, wide, back) \
  OB_BY_FOUR_POINTER(fract, T, T, n, wide, back) \
  OB_BY_FOUR_POINTER(frexp, T, int, n, wide, back) \
  OB_BY_FOUR_POINTER(lgamma_r, T, int, n, wide, back) \
  OB_FUNCTION int##n ilogb(T##n x) { return ilogb(x.wide).back; } \
  OB_FUNCTION T##n remquo(T##n x, T##n y, int##n* quotient) { \
    int4 found; \
    const T##4 r = remquo(x.wide, y.wide, &found); \
    *quotient = found.back; \
    return r.back; \
  }
OB_BY_FOUR(float, 2, xyxy, xy)
OB_BY_FOUR(float, 3, xyzz, xyz)
OB_BY_FOUR(double, 3, xyzz, xyz)
/* clang-format on */
OB_FUNCTION float2 nan(uint2 payload) { return nan(payload.xyxy).xy; }
OB_FUNCTION float3 nan(uint3 payload) { return nan(payload.xyzz).xyz; }
OB_FUNCTION double3 nan(ulong3 payload) { return nan(payload.xyzz).xyz; }

#define OB_BOUND_BY_NUMBER(T, S)                           \
  OB_FUNCTION T fmax(T x, S y) { return fmax(x, (T)(y)); } \
  OB_FUNCTION T fmin(T x, S y) { return fmin(x, (T)(y)); }
OB_FOR_VECTORS_AND_NUMBER(OB_BOUND_BY_NUMBER, float)
OB_FOR_VECTORS_AND_NUMBER(OB_BOUND_BY_NUMBER, double)
#define OB_LDEXP_BY_NUMBER(T, N) \
  OB_FUNCTION T ldexp(T x, int n) { return ldexp(x, (N)(n)); }
OB_VECTOR_WIDTHS_2(OB_LDEXP_BY_NUMBER, float, int)
OB_VECTOR_WIDTHS_2(OB_LDEXP_BY_NUMBER, double, int)
