/* Common and geometric functions of OpenCL C, for floating point. */
#ifndef OUTBOARD_DIALECT_COMMON_H
#define OUTBOARD_DIALECT_COMMON_H

#define OB_COMMON(T)                                                         \
  OB_FUNCTION T min(T x, T y) { return y < x ? y : x; }                      \
  OB_FUNCTION T max(T x, T y) { return x < y ? y : x; }                      \
  OB_FUNCTION T clamp(T x, T low, T high) { return min(max(x, low), high); } \
  OB_FUNCTION T mix(T x, T y, T a) { return x + (y - x) * a; }               \
  OB_FUNCTION T step(T edge, T x) { return x < edge ? (T)(0) : (T)(1); }     \
  OB_FUNCTION T smoothstep(T low, T high, T x) {                             \
    const T t = clamp((x - low) / (high - low), (T)(0), (T)(1));             \
    return t * t * ((T)(3) - (T)(2) * t);                                    \
  }                                                                          \
  OB_FUNCTION T sign(T x) {                                                  \
    const T one = copysign((T)(1), x);                                       \
    return x != x ? (T)(0) : x == (T)(0) ? x : one;                          \
  }
#define OB_COMMON_BOUNDS(T, S)                                                      \
  OB_FUNCTION T min(T x, S y) { return min(x, (T)(y)); }                            \
  OB_FUNCTION T max(T x, S y) { return max(x, (T)(y)); }                            \
  OB_FUNCTION T clamp(T x, S low, S high) { return clamp(x, (T)(low), (T)(high)); } \
  OB_FUNCTION T mix(T x, T y, S a) { return mix(x, y, (T)(a)); }                    \
  OB_FUNCTION T step(S edge, T x) { return step((T)(edge), x); }                    \
  OB_FUNCTION T smoothstep(S low, S high, T x) { return smoothstep((T)(low), (T)(high), x); }
OB_WIDTHS(OB_COMMON, float)
OB_WIDTHS(OB_COMMON, double)
OB_FOR_VECTORS_AND_NUMBER(OB_COMMON_BOUNDS, float)
OB_FOR_VECTORS_AND_NUMBER(OB_COMMON_BOUNDS, double)

#define OB_ANGLES_FLOAT(T)                                       \
  OB_FUNCTION T degrees(T x) { return x * (T)(0x1.ca5dc2p+5f); } \
  OB_FUNCTION T radians(T x) { return x * (T)(0x1.1df46ap-6f); }
#define OB_ANGLES_DOUBLE(T)                                                          \
  OB_FUNCTION T degrees(T x) { return x * (T)(OB_DOUBLE_BITS(0x404ca5dc1a63c1f8)); } \
  OB_FUNCTION T radians(T x) { return x * (T)(OB_DOUBLE_BITS(0x3f91df46a2529d39)); }
OB_WIDTHS(OB_ANGLES_FLOAT, float)
OB_WIDTHS(OB_ANGLES_DOUBLE, double)

/* ---- Geometric functions ---- */

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
