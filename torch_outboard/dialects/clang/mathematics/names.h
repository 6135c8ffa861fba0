/* Vectors of three, vectors with numbers, and the names of functions that may be less exact. */

#define OB_THREE_1(name, T, R) \
  OB_FUNCTION R##3 name(T##3 x) { return name((T##4)(x, x.z)).xyz; }
#define OB_THREE_2(name, T, U) \
  OB_FUNCTION T##3 name(T##3 x, U##3 y) { return name((T##4)(x, x.z), (U##4)(y, y.z)).xyz; }
#define OB_THREE_3(name, T)                                          \
  OB_FUNCTION T##3 name(T##3 x, T##3 y, T##3 z) {                    \
    return name((T##4)(x, x.z), (T##4)(y, y.z), (T##4)(z, z.z)).xyz; \
  }
#define OB_THREE_POINTER(name, T, U)                  \
  OB_FUNCTION T##3 name(T##3 x, U##3 * y) {           \
    U##4 second;                                      \
    const T##4 first = name((T##4)(x, x.z), &second); \
    *y = second.xyz;                                  \
    return first.xyz;                                 \
  }
#define OB_ONE_ARGUMENT(name) OB_THREE_1(name, float, float) OB_THREE_1(name, double, double)
#define OB_TWO_ARGUMENTS(name) OB_THREE_2(name, float, float) OB_THREE_2(name, double, double)
/* clang-format off */
OB_ONE_ARGUMENT(exp) OB_ONE_ARGUMENT(exp2) OB_ONE_ARGUMENT(exp10) OB_ONE_ARGUMENT(expm1)
OB_ONE_ARGUMENT(log) OB_ONE_ARGUMENT(log2) OB_ONE_ARGUMENT(log10) OB_ONE_ARGUMENT(log1p)
OB_ONE_ARGUMENT(sin) OB_ONE_ARGUMENT(cos) OB_ONE_ARGUMENT(tan)
OB_ONE_ARGUMENT(sinpi) OB_ONE_ARGUMENT(cospi) OB_ONE_ARGUMENT(tanpi)
OB_ONE_ARGUMENT(asin) OB_ONE_ARGUMENT(acos) OB_ONE_ARGUMENT(atan)
OB_ONE_ARGUMENT(asinpi) OB_ONE_ARGUMENT(acospi) OB_ONE_ARGUMENT(atanpi)
OB_ONE_ARGUMENT(sinh) OB_ONE_ARGUMENT(cosh) OB_ONE_ARGUMENT(tanh)
OB_ONE_ARGUMENT(asinh) OB_ONE_ARGUMENT(acosh) OB_ONE_ARGUMENT(atanh)
OB_ONE_ARGUMENT(erf) OB_ONE_ARGUMENT(erfc) OB_ONE_ARGUMENT(lgamma) OB_ONE_ARGUMENT(tgamma)
OB_ONE_ARGUMENT(sqrt) OB_ONE_ARGUMENT(rsqrt) OB_ONE_ARGUMENT(cbrt) OB_ONE_ARGUMENT(logb)
OB_ONE_ARGUMENT(rint) OB_ONE_ARGUMENT(round) OB_ONE_ARGUMENT(trunc) OB_ONE_ARGUMENT(floor)
OB_ONE_ARGUMENT(ceil) OB_ONE_ARGUMENT(fabs)
OB_THREE_1(ilogb, float, int) OB_THREE_1(ilogb, double, int)
OB_THREE_1(nan, uint, float) OB_THREE_1(nan, ulong, double)
OB_TWO_ARGUMENTS(pow) OB_TWO_ARGUMENTS(powr) OB_TWO_ARGUMENTS(atan2) OB_TWO_ARGUMENTS(atan2pi)
OB_TWO_ARGUMENTS(hypot) OB_TWO_ARGUMENTS(fmod) OB_TWO_ARGUMENTS(remainder)
OB_TWO_ARGUMENTS(nextafter) OB_TWO_ARGUMENTS(copysign) OB_TWO_ARGUMENTS(fdim)
OB_TWO_ARGUMENTS(fmax) OB_TWO_ARGUMENTS(fmin) OB_TWO_ARGUMENTS(maxmag) OB_TWO_ARGUMENTS(minmag)
OB_THREE_2(ldexp, float, int) OB_THREE_2(ldexp, double, int)
OB_THREE_2(pown, float, int) OB_THREE_2(pown, double, int)
OB_THREE_2(rootn, float, int) OB_THREE_2(rootn, double, int)
OB_THREE_3(fma, float) OB_THREE_3(fma, double) OB_THREE_3(mad, float) OB_THREE_3(mad, double)
OB_THREE_POINTER(sincos, float, float) OB_THREE_POINTER(sincos, double, double)
OB_THREE_POINTER(modf, float, float) OB_THREE_POINTER(modf, double, double)
OB_THREE_POINTER(fract, float, float) OB_THREE_POINTER(fract, double, double)
OB_THREE_POINTER(frexp, float, int) OB_THREE_POINTER(frexp, double, int)
OB_THREE_POINTER(lgamma_r, float, int) OB_THREE_POINTER(lgamma_r, double, int)
/* clang-format on */
#define OB_THREE_REMQUO(T)                                         \
  OB_FUNCTION T##3 remquo(T##3 x, T##3 y, int3* quotient) {        \
    int4 found;                                                    \
    const T##4 r = remquo((T##4)(x, x.z), (T##4)(y, y.z), &found); \
    *quotient = found.xyz;                                         \
    return r.xyz;                                                  \
  }
                                                            OB_THREE_REMQUO(float) OB_THREE_REMQUO(
                                                                double)

#define OB_BOUND_BY_NUMBER(T, S)                           \
  OB_FUNCTION T fmax(T x, S y) { return fmax(x, (T)(y)); } \
  OB_FUNCTION T fmin(T x, S y) { return fmin(x, (T)(y)); }
                                                                OB_FOR_VECTORS_AND_NUMBER(
                                                                    OB_BOUND_BY_NUMBER, float)
                                                                    OB_FOR_VECTORS_AND_NUMBER(
                                                                        OB_BOUND_BY_NUMBER, double)
#define OB_LDEXP_BY_NUMBER(T, N) \
  OB_FUNCTION T ldexp(T x, int n) { return ldexp(x, (N)(n)); }
                                                                        OB_VECTOR_WIDTHS_2(
                                                                            OB_LDEXP_BY_NUMBER,
                                                                            float, int)
                                                                            OB_VECTOR_WIDTHS_2(
                                                                                OB_LDEXP_BY_NUMBER,
                                                                                double, int)

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
