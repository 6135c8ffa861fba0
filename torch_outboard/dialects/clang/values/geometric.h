/* Geometric functions of OpenCL C. */
#ifndef OUTBOARD_DIALECT_GEOMETRIC_H
#define OUTBOARD_DIALECT_GEOMETRIC_H

#define OB_GEOMETRIC(T, S)                                                  \
  OB_FUNCTION S length(T x) {                                               \
    /* Scaled by a power of two: squares neither overflow nor underflow. */ \
    const S largest = ob_largest(fabs(x));                                  \
    if (!(largest > 0) || isinf(largest)) return largest;                   \
    const int power = ilogb(largest);                                       \
    const T scaled = ob_scaled(x, -power);                                  \
    return ldexp(sqrt(dot(scaled, scaled)), power);                         \
  }                                                                         \
  OB_FUNCTION T normalize(T x) {                                            \
    const S n = length(x);                                                  \
    return n == 0 ? x : x / n;                                              \
  }                                                                         \
  OB_FUNCTION S distance(T x, T y) { return length(x - y); }                \
  OB_FUNCTION S fast_length(T x) { return sqrt(dot(x, x)); }                \
  OB_FUNCTION S fast_distance(T x, T y) { return fast_length(x - y); }      \
  OB_FUNCTION T fast_normalize(T x) { return normalize(x); }
#define OB_GEOMETRIC_OF(S)                                                                        \
  OB_FUNCTION S dot(S x, S y) { return x * y; }                                                   \
  OB_FUNCTION S dot(S##2 x, S##2 y) { return x.x * y.x + x.y * y.y; }                             \
  OB_FUNCTION S dot(S##3 x, S##3 y) { return x.x * y.x + x.y * y.y + x.z * y.z; }                 \
  OB_FUNCTION S dot(S##4 x, S##4 y) { return (x.x * y.x + x.y * y.y) + (x.z * y.z + x.w * y.w); } \
  OB_FUNCTION S ob_largest(S x) { return x; }                                                     \
  OB_FUNCTION S ob_largest(S##2 x) { return x.x != x.x ? x.x : x.y <= x.x ? x.x : x.y; }          \
  OB_FUNCTION S ob_largest(S##4 x) {                                                              \
    return ob_largest((S##2)(ob_largest(x.lo), ob_largest(x.hi)));                                \
  }                                                                                               \
  OB_FUNCTION S ob_largest(S##3 x) { return ob_largest((S##4)(x, 0)); }                           \
  OB_FUNCTION S ob_scaled(S x, int power) { return ldexp(x, power); }                             \
  OB_FUNCTION S##2 ob_scaled(S##2 x, int power) { return ldexp(x, (int2)(power)); }               \
  OB_FUNCTION S##3 ob_scaled(S##3 x, int power) { return ldexp(x, (int3)(power)); }               \
  OB_FUNCTION S##4 ob_scaled(S##4 x, int power) { return ldexp(x, (int4)(power)); }               \
  OB_FUNCTION S##3 cross(S##3 x, S##3 y) { return x.yzx * y.zxy - x.zxy * y.yzx; }                \
  OB_FUNCTION S##4 cross(S##4 x, S##4 y) { return (S##4)(cross(x.xyz, y.xyz), 0); }               \
  OB_GEOMETRIC(S, S)                                                                              \
  OB_GEOMETRIC(S##2, S)                                                                           \
  OB_GEOMETRIC(S##3, S)                                                                           \
  OB_GEOMETRIC(S##4, S)
OB_GEOMETRIC_OF(float)
OB_GEOMETRIC_OF(double)

#endif
