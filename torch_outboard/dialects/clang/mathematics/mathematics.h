/* Mathematical functions of OpenCL C, element by element by the C library. */
#ifndef OUTBOARD_DIALECT_MATHEMATICS_H
#define OUTBOARD_DIALECT_MATHEMATICS_H

/* clang-format off */
#define OB_LANES(T, n, value)                     \
  {                                               \
    T##n r;                                       \
    for (int i = 0; i < n; ++i) r[i] = value;     \
    return r;                                     \
  }
#define OB_VECTORS_1(T, R, name, n) OB_FUNCTION R##n name(T##n x) OB_LANES(R, n, name(x[i]))
#define OB_VECTORS_2(T, U, name, n) OB_FUNCTION T##n name(T##n x, U##n y) OB_LANES(T, n, name(x[i], y[i]))
#define OB_VECTORS_3(T, name, n) \
  OB_FUNCTION T##n name(T##n x, T##n y, T##n z) OB_LANES(T, n, name(x[i], y[i], z[i]))
#define OB_MATH_1_OF(T, R, name, call)                   \
  OB_FUNCTION R name(T x) { return call(x); }            \
  OB_VECTORS_1(T, R, name, 2) OB_VECTORS_1(T, R, name, 3) OB_VECTORS_1(T, R, name, 4)  \
  OB_VECTORS_1(T, R, name, 8) OB_VECTORS_1(T, R, name, 16)
#define OB_MATH_2_OF(T, U, name, call)                   \
  OB_FUNCTION T name(T x, U y) { return call(x, y); }    \
  OB_VECTORS_2(T, U, name, 2) OB_VECTORS_2(T, U, name, 3) OB_VECTORS_2(T, U, name, 4)  \
  OB_VECTORS_2(T, U, name, 8) OB_VECTORS_2(T, U, name, 16)
#define OB_MATH_3_OF(T, name, call)                      \
  OB_FUNCTION T name(T x, T y, T z) { return call(x, y, z); } \
  OB_VECTORS_3(T, name, 2) OB_VECTORS_3(T, name, 3) OB_VECTORS_3(T, name, 4)  \
  OB_VECTORS_3(T, name, 8) OB_VECTORS_3(T, name, 16)
#define OB_MATH_1(name) \
  OB_MATH_1_OF(float, float, name, __builtin_##name##f) OB_MATH_1_OF(double, double, name, __builtin_##name)
#define OB_MATH_2(name) \
  OB_MATH_2_OF(float, float, name, __builtin_##name##f) OB_MATH_2_OF(double, double, name, __builtin_##name)
OB_MATH_1(exp) OB_MATH_1(exp2) OB_MATH_1(expm1) OB_MATH_1(log) OB_MATH_1(log2) OB_MATH_1(log10)
OB_MATH_1(log1p) OB_MATH_1(sin) OB_MATH_1(cos) OB_MATH_1(tan) OB_MATH_1(asin) OB_MATH_1(acos)
OB_MATH_1(atan) OB_MATH_1(sinh) OB_MATH_1(cosh) OB_MATH_1(tanh) OB_MATH_1(asinh) OB_MATH_1(acosh)
OB_MATH_1(atanh) OB_MATH_1(erf) OB_MATH_1(erfc) OB_MATH_1(sqrt) OB_MATH_1(cbrt) OB_MATH_1(logb)
OB_MATH_1(lgamma) OB_MATH_1(tgamma) OB_MATH_1(rint) OB_MATH_1(round) OB_MATH_1(trunc)
OB_MATH_1(floor) OB_MATH_1(ceil) OB_MATH_1(fabs)
OB_MATH_2(pow) OB_MATH_2(atan2) OB_MATH_2(hypot) OB_MATH_2(fmod) OB_MATH_2(remainder)
OB_MATH_2(nextafter) OB_MATH_2(copysign) OB_MATH_2(fdim) OB_MATH_2(fmax) OB_MATH_2(fmin)
OB_MATH_2_OF(float, int, ldexp, __builtin_ldexpf) OB_MATH_2_OF(double, int, ldexp, __builtin_ldexp)
OB_MATH_1_OF(float, int, ilogb, __builtin_ilogbf) OB_MATH_1_OF(double, int, ilogb, __builtin_ilogb)
OB_MATH_3_OF(float, fma, __builtin_fmaf) OB_MATH_3_OF(double, fma, __builtin_fma)
#define OB_PRODUCT_AND_SUM(x, y, z) ((x) * (y) + (z))
OB_MATH_3_OF(float, mad, OB_PRODUCT_AND_SUM) OB_MATH_3_OF(double, mad, OB_PRODUCT_AND_SUM)
#define OB_RSQRT(x) (1 / sqrt(x))
OB_MATH_1_OF(float, float, rsqrt, OB_RSQRT) OB_MATH_1_OF(double, double, rsqrt, OB_RSQRT)
#define OB_EXP10(x) __builtin_pow(10, x)
OB_MATH_1_OF(float, float, exp10, OB_EXP10) OB_MATH_1_OF(double, double, exp10, OB_EXP10)
#define OB_SINPI(x) __builtin_sin(M_PI * __builtin_fmod((double)(x), 2))
#define OB_COSPI(x) __builtin_cos(M_PI * __builtin_fmod((double)(x), 2))
OB_MATH_1_OF(float, float, sinpi, OB_SINPI) OB_MATH_1_OF(double, double, sinpi, OB_SINPI)
OB_MATH_1_OF(float, float, cospi, OB_COSPI) OB_MATH_1_OF(double, double, cospi, OB_COSPI)
/* One argument and a pointer to another result. */
#define OB_RESULT_2_OF(T, P, n, name)                                 \
  OB_FUNCTION T##n name(T##n x, P##n *y) {                            \
    T##n r;                                                           \
    for (int i = 0; i < n; ++i) {                                     \
      P second;                                                       \
      r[i] = name(x[i], &second);                                     \
      (*y)[i] = second;                                               \
    }                                                                 \
    return r;                                                         \
  }
#define OB_RESULT_2(T, P, name, call)                                 \
  OB_FUNCTION T name(T x, P *y) { return call; }                      \
  OB_RESULT_2_OF(T, P, 2, name) OB_RESULT_2_OF(T, P, 3, name) OB_RESULT_2_OF(T, P, 4, name) \
  OB_RESULT_2_OF(T, P, 8, name) OB_RESULT_2_OF(T, P, 16, name)
OB_RESULT_2(float, float, sincos, (*y = cos(x), sin(x)))
OB_RESULT_2(double, double, sincos, (*y = cos(x), sin(x)))
OB_RESULT_2(float, int, frexp, __builtin_frexpf(x, y))
OB_RESULT_2(double, int, frexp, __builtin_frexp(x, y))
OB_RESULT_2(float, float, modf, __builtin_modff(x, y))
OB_RESULT_2(double, double, modf, __builtin_modf(x, y))
OB_RESULT_2(float, float, fract, (*y = floor(x), fmin(x - *y, 0x1.fffffep-1f)))
OB_RESULT_2(double, double, fract, (*y = floor(x), fmin(x - *y, OB_DOUBLE_BITS(0x3fefffffffffffff))))

#define OB_BOUND_BY_NUMBER(T, S)                            \
  OB_FUNCTION T fmax(T x, S y) { return fmax(x, (T)(y)); }  \
  OB_FUNCTION T fmin(T x, S y) { return fmin(x, (T)(y)); }
OB_FOR_VECTORS_AND_NUMBER(OB_BOUND_BY_NUMBER, float)
OB_FOR_VECTORS_AND_NUMBER(OB_BOUND_BY_NUMBER, double)
#define OB_LDEXP_BY_NUMBER(T, N) \
  OB_FUNCTION T ldexp(T x, int n) { return ldexp(x, (N)(n)); }
OB_VECTOR_WIDTHS_2(OB_LDEXP_BY_NUMBER, float, int)
OB_VECTOR_WIDTHS_2(OB_LDEXP_BY_NUMBER, double, int)

#endif
