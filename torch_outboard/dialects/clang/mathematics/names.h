/* Vectors of two and three, vectors with scalars, and the names of less exact functions. */

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
#define OB_BY_FOUR_MORE(T, n, wide, back) \
  OB_BY_FOUR_3(fma, T, n, wide, back) \
  OB_BY_FOUR_3(mad, T, n, wide, back) \
  OB_BY_FOUR_INTEGER(ldexp, T, n, wide, back) \
  OB_BY_FOUR_INTEGER(pown, T, n, wide, back) \
  OB_BY_FOUR_INTEGER(rootn, T, n, wide, back) \
  OB_BY_FOUR_POINTER(sincos, T, T, n, wide, back) OB_BY_FOUR_POINTER(modf, T, T, n, wide, back) \
      OB_BY_FOUR_POINTER(fract, T, T, n, wide, back) \
          OB_BY_FOUR_POINTER(frexp, T, int, n, wide, back) \
              OB_BY_FOUR_POINTER(lgamma_r, T, int, n, wide, back) OB_FUNCTION int##n \
              ilogb(T##n x) { \
    return ilogb(x.wide).back; \
  } \
  OB_FUNCTION T##n remquo(T##n x, T##n y, int##n* quotient) { \
    int4 found; \
    const T##4 r = remquo(x.wide, y.wide, &found); \
    *quotient = found.back; \
    return r.back; \
  }
#define OB_BY_FOUR(T, n, wide, back) \
  OB_BY_FOUR_1(exp, T, n, wide, back) OB_BY_FOUR_1(exp2, T, n, wide, back) \
  OB_BY_FOUR_1(exp10, T, n, wide, back) OB_BY_FOUR_1(expm1, T, n, wide, back) \
  OB_BY_FOUR_1(log, T, n, wide, back) OB_BY_FOUR_1(log2, T, n, wide, back) \
  OB_BY_FOUR_1(log10, T, n, wide, back) OB_BY_FOUR_1(log1p, T, n, wide, back) \
  OB_BY_FOUR_1(sin, T, n, wide, back) OB_BY_FOUR_1(cos, T, n, wide, back) \
  OB_BY_FOUR_1(tan, T, n, wide, back) OB_BY_FOUR_1(sinpi, T, n, wide, back) \
  OB_BY_FOUR_1(cospi, T, n, wide, back) OB_BY_FOUR_1(tanpi, T, n, wide, back) \
  OB_BY_FOUR_1(asin, T, n, wide, back) OB_BY_FOUR_1(acos, T, n, wide, back) \
  OB_BY_FOUR_1(atan, T, n, wide, back) OB_BY_FOUR_1(asinpi, T, n, wide, back) \
  OB_BY_FOUR_1(acospi, T, n, wide, back) OB_BY_FOUR_1(atanpi, T, n, wide, back) \
  OB_BY_FOUR_1(sinh, T, n, wide, back) OB_BY_FOUR_1(cosh, T, n, wide, back) \
  OB_BY_FOUR_1(tanh, T, n, wide, back) OB_BY_FOUR_1(asinh, T, n, wide, back) \
  OB_BY_FOUR_1(acosh, T, n, wide, back) OB_BY_FOUR_1(atanh, T, n, wide, back) \
  OB_BY_FOUR_1(erf, T, n, wide, back) OB_BY_FOUR_1(erfc, T, n, wide, back) \
  OB_BY_FOUR_1(lgamma, T, n, wide, back) OB_BY_FOUR_1(tgamma, T, n, wide, back) \
  OB_BY_FOUR_1(sqrt, T, n, wide, back) OB_BY_FOUR_1(rsqrt, T, n, wide, back) \
  OB_BY_FOUR_1(cbrt, T, n, wide, back) OB_BY_FOUR_1(logb, T, n, wide, back) \
  OB_BY_FOUR_1(rint, T, n, wide, back) OB_BY_FOUR_1(round, T, n, wide, back) \
  OB_BY_FOUR_1(trunc, T, n, wide, back) OB_BY_FOUR_1(floor, T, n, wide, back) \
  OB_BY_FOUR_1(ceil, T, n, wide, back) OB_BY_FOUR_1(fabs, T, n, wide, back) \
  OB_BY_FOUR_2(pow, T, n, wide, back) OB_BY_FOUR_2(powr, T, n, wide, back) \
  OB_BY_FOUR_2(atan2, T, n, wide, back) OB_BY_FOUR_2(atan2pi, T, n, wide, back) \
  OB_BY_FOUR_2(hypot, T, n, wide, back) OB_BY_FOUR_2(fmod, T, n, wide, back) \
  OB_BY_FOUR_2(remainder, T, n, wide, back) OB_BY_FOUR_2(nextafter, T, n, wide, back) \
  OB_BY_FOUR_2(copysign, T, n, wide, back) OB_BY_FOUR_2(fdim, T, n, wide, back) \
  OB_BY_FOUR_2(fmax, T, n, wide, back) OB_BY_FOUR_2(fmin, T, n, wide, back) \
  OB_BY_FOUR_2(maxmag, T, n, wide, back) OB_BY_FOUR_2(minmag, T, n, wide, back) \
  OB_BY_FOUR_MORE(T, n, wide, back)
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

#define native_cos(x) cos(x)
#define native_divide(x, y) ((x) / (y))
#define native_exp(x) exp(x)
#define native_exp10(x) exp10(x)
#define native_exp2(x) exp2(x)
#define native_log(x) log(x)
#define native_log10(x) log10(x)
#define native_log2(x) log2(x)
#define native_powr(x, y) powr(x, y)
#define native_recip(x) (1 / (x))
#define native_rsqrt(x) rsqrt(x)
#define native_sin(x) sin(x)
#define native_sqrt(x) sqrt(x)
#define native_tan(x) tan(x)
#define half_cos(x) cos(x)
#define half_divide(x, y) ((x) / (y))
#define half_exp(x) exp(x)
#define half_exp10(x) exp10(x)
#define half_exp2(x) exp2(x)
#define half_log(x) log(x)
#define half_log10(x) log10(x)
#define half_log2(x) log2(x)
#define half_powr(x, y) powr(x, y)
#define half_recip(x) (1 / (x))
#define half_rsqrt(x) rsqrt(x)
#define half_sin(x) sin(x)
#define half_sqrt(x) sqrt(x)
#define half_tan(x) tan(x)
