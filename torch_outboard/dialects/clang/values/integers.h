/* Integer functions of OpenCL C. */
#ifndef OUTBOARD_DIALECT_INTEGERS_H
#define OUTBOARD_DIALECT_INTEGERS_H

/* The high half of products: by a type of twice the size; 64 bits by halves. */
#define OB_MUL_HI(T, WIDE, BITS)                                                                   \
  OB_FUNCTION T mul_hi(T x, T y) {                                                                 \
    return __builtin_convertvector(                                                                \
        (__builtin_convertvector(x, WIDE) * __builtin_convertvector(y, WIDE)) >> (WIDE)(BITS), T); \
  }
#define OB_MUL_HI_OF(T, WIDE, BITS)                                           \
  OB_FUNCTION T mul_hi(T x, T y) { return (T)(((WIDE)x * (WIDE)y) >> BITS); } \
  OB_VECTOR_WIDTHS_3(OB_MUL_HI, T, WIDE, BITS)
OB_MUL_HI_OF(char, short, 8)
OB_MUL_HI_OF(uchar, ushort, 8)
OB_MUL_HI_OF(short, int, 16)
OB_MUL_HI_OF(ushort, uint, 16)
OB_MUL_HI_OF(int, long, 32)
OB_MUL_HI_OF(uint, ulong, 32)
#define OB_MUL_HI_ULONG(T)                                                    \
  OB_FUNCTION T mul_hi(T x, T y) {                                            \
    const T low = (T)(0xffffffffUL), half_bits = (T)(32);                     \
    const T a = x & low, b = x >> half_bits, c = y & low, d = y >> half_bits; \
    const T ad = a * d + ((a * c) >> half_bits);                              \
    const T bc = b * c + (ad & low);                                          \
    return b * d + (ad >> half_bits) + (bc >> half_bits);                     \
  }
OB_WIDTHS(OB_MUL_HI_ULONG, ulong)
#define OB_MUL_HI_LONG(T, U)                                                                  \
  OB_FUNCTION T mul_hi(T x, T y) {                                                            \
    const U high = mul_hi(__builtin_astype(x, U), __builtin_astype(y, U));                    \
    return __builtin_astype(high, T) - (x < (T)(0) ? y : (T)(0)) - (y < (T)(0) ? x : (T)(0)); \
  }
OB_WIDTHS_2(OB_MUL_HI_LONG, long, ulong)

/* For a type and its vectors; U: the unsigned type of the same size; BITS: its bits. */
#define OB_INTEGER(T, U, BITS)                                                                  \
  OB_FUNCTION T min(T x, T y) { return y < x ? y : x; }                                         \
  OB_FUNCTION T max(T x, T y) { return x < y ? y : x; }                                         \
  OB_FUNCTION T clamp(T x, T low, T high) { return min(max(x, low), high); }                    \
  OB_FUNCTION T hadd(T x, T y) { return (x & y) + ((x ^ y) >> (T)(1)); }                        \
  OB_FUNCTION T rhadd(T x, T y) { return (x | y) - ((x ^ y) >> (T)(1)); }                       \
  OB_FUNCTION T mad_hi(T x, T y, T z) { return mul_hi(x, y) + z; }                              \
  OB_FUNCTION U abs_diff(T x, T y) {                                                            \
    const U a = __builtin_astype(x, U), b = __builtin_astype(y, U);                             \
    return x < y ? b - a : a - b;                                                               \
  }                                                                                             \
  OB_FUNCTION T rotate(T x, T count) {                                                          \
    const U bits = __builtin_astype(x, U), n = __builtin_astype(count, U) & (U)(BITS - 1);      \
    return __builtin_astype((U)((bits << n) | (bits >> (((U)(BITS) - n) & (U)(BITS - 1)))), T); \
  }                                                                                             \
  OB_FUNCTION T popcount(T x) {                                                                 \
    U n = __builtin_astype(x, U);                                                               \
    n = n - ((n >> (U)(1)) & (U)(0x5555555555555555UL));                                        \
    n = (n & (U)(0x3333333333333333UL)) + ((n >> (U)(2)) & (U)(0x3333333333333333UL));          \
    n = (n + (n >> (U)(4))) & (U)(0x0f0f0f0f0f0f0f0fUL);                                        \
    n = n * (U)(0x0101010101010101UL);                                                          \
    return __builtin_astype((U)(n >> (U)(BITS - 8)), T);                                        \
  }                                                                                             \
  OB_FUNCTION T clz(T x) {                                                                      \
    U n = __builtin_astype(x, U);                                                               \
    for (int shift = 1; shift < BITS; shift *= 2) n |= n >> (U)(shift);                         \
    return (T)(BITS) - popcount(__builtin_astype(n, T));                                        \
  }                                                                                             \
  OB_FUNCTION T ctz(T x) { return popcount((T)(~x & (x - (T)(1)))); }
#define OB_SIGNED(T, U, BITS)                                                                   \
  OB_INTEGER(T, U, BITS)                                                                        \
  /* The least value for negative x, else the largest. */                                       \
  OB_FUNCTION T ob_bound(T x) {                                                                 \
    return (x >> (T)(BITS - 1)) ^ __builtin_astype((U)(((U)(1) << (U)(BITS - 1)) - (U)(1)), T); \
  }                                                                                             \
  OB_FUNCTION U abs(T x) {                                                                      \
    const U bits = __builtin_astype(x, U);                                                      \
    return x < (T)(0) ? (U)(0) - bits : bits;                                                   \
  }                                                                                             \
  OB_FUNCTION T add_sat(T x, T y) {                                                             \
    const U sum = __builtin_astype(x, U) + __builtin_astype(y, U);                              \
    const T r = __builtin_astype(sum, T);                                                       \
    return (T)((x ^ r) & (y ^ r)) < (T)(0) ? ob_bound(x) : r;                                   \
  }                                                                                             \
  OB_FUNCTION T sub_sat(T x, T y) {                                                             \
    const U difference = __builtin_astype(x, U) - __builtin_astype(y, U);                       \
    const T r = __builtin_astype(difference, T);                                                \
    return (T)((x ^ y) & (x ^ r)) < (T)(0) ? ob_bound(x) : r;                                   \
  }                                                                                             \
  /* If the product overflows, its sign selects the bound; else the sum saturates. */           \
  OB_FUNCTION T mad_sat(T x, T y, T z) {                                                        \
    const T high = mul_hi(x, y);                                                                \
    const U low = __builtin_astype(x, U) * __builtin_astype(y, U);                              \
    const U sum = low + __builtin_astype(z, U);                                                 \
    /* The high half of the double-width sum, from sign and carry. */                           \
    const T sign = z >> (T)(BITS - 1);                                                          \
    const T top = high + sign + (sum < low ? (T)(1) : (T)(0));                                  \
    const T r = __builtin_astype(sum, T);                                                       \
    return top == (r >> (T)(BITS - 1)) ? r : ob_bound(top);                                     \
  }
#define OB_UNSIGNED(T, U, BITS)                                                     \
  OB_INTEGER(T, U, BITS)                                                            \
  OB_FUNCTION U abs(T x) { return x; }                                              \
  OB_FUNCTION T add_sat(T x, T y) { return (T)(x + y) < x ? ~(T)(0) : (T)(x + y); } \
  OB_FUNCTION T sub_sat(T x, T y) { return x < y ? (T)(0) : (T)(x - y); }           \
  OB_FUNCTION T mad_sat(T x, T y, T z) {                                            \
    return mul_hi(x, y) != (T)(0) ? ~(T)(0) : add_sat((T)(x * y), z);               \
  }

#define OB_FOR_VECTORS_OF(DEFINE, T, U, BITS) \
  DEFINE(T, U, BITS) OB_VECTOR_WIDTHS_3(DEFINE, T, U, BITS)
OB_FOR_VECTORS_OF(OB_SIGNED, char, uchar, 8)
OB_FOR_VECTORS_OF(OB_UNSIGNED, uchar, uchar, 8)
OB_FOR_VECTORS_OF(OB_SIGNED, short, ushort, 16)
OB_FOR_VECTORS_OF(OB_UNSIGNED, ushort, ushort, 16)
OB_FOR_VECTORS_OF(OB_SIGNED, int, uint, 32)
OB_FOR_VECTORS_OF(OB_UNSIGNED, uint, uint, 32)
OB_FOR_VECTORS_OF(OB_SIGNED, long, ulong, 64)
OB_FOR_VECTORS_OF(OB_UNSIGNED, ulong, ulong, 64)

/* min, max and clamp of a vector and scalars. */
#define OB_INTEGER_BOUNDS(T, S)                          \
  OB_FUNCTION T min(T x, S y) { return min(x, (T)(y)); } \
  OB_FUNCTION T max(T x, S y) { return max(x, (T)(y)); } \
  OB_FUNCTION T clamp(T x, S low, S high) { return clamp(x, (T)(low), (T)(high)); }
#define OB_FOR_VECTORS_AND_NUMBER(DEFINE, T) \
  DEFINE(T##2, T) DEFINE(T##3, T) DEFINE(T##4, T) DEFINE(T##8, T) DEFINE(T##16, T)
#define OB_INTEGER_BOUNDS_OF(T) OB_FOR_VECTORS_AND_NUMBER(OB_INTEGER_BOUNDS, T)
OB_INTEGERS(OB_INTEGER_BOUNDS_OF)

#define OB_24_BITS(T)                             \
  OB_FUNCTION T mul24(T x, T y) { return x * y; } \
  OB_FUNCTION T mad24(T x, T y, T z) { return x * y + z; }
OB_WIDTHS(OB_24_BITS, int)
OB_WIDTHS(OB_24_BITS, uint)

/* Two integers as the halves of one of twice the size. */
#define OB_UPSAMPLE(T, U, WIDE, BITS)                                                           \
  OB_FUNCTION WIDE upsample(T high, U low) { return (WIDE)(((WIDE)high << BITS) | (WIDE)low); } \
  OB_UPSAMPLE_VECTOR(T##2, U##2, WIDE##2, BITS)                                                 \
  OB_UPSAMPLE_VECTOR(T##3, U##3, WIDE##3, BITS)                                                 \
  OB_UPSAMPLE_VECTOR(T##4, U##4, WIDE##4, BITS)                                                 \
  OB_UPSAMPLE_VECTOR(T##8, U##8, WIDE##8, BITS)                                                 \
  OB_UPSAMPLE_VECTOR(T##16, U##16, WIDE##16, BITS)
#define OB_UPSAMPLE_VECTOR(T, U, WIDE, BITS)                       \
  OB_FUNCTION WIDE upsample(T high, U low) {                       \
    return (__builtin_convertvector(high, WIDE) << (WIDE)(BITS)) | \
           __builtin_convertvector(low, WIDE);                     \
  }
OB_UPSAMPLE(char, uchar, short, 8)
OB_UPSAMPLE(uchar, uchar, ushort, 8)
OB_UPSAMPLE(short, ushort, int, 16)
OB_UPSAMPLE(ushort, ushort, uint, 16)
OB_UPSAMPLE(int, uint, long, 32)
OB_UPSAMPLE(uint, uint, ulong, 32)

#endif
