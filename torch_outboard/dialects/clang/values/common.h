/* Common functions of OpenCL C, for floating point. */
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

#endif
