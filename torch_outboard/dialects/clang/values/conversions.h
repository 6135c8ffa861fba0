/*
 * as_<type>: the same bits. convert_<type>: the same value; _sat saturates to the range of an
 * integer type; _rte, _rtz, _rtp, _rtn round to nearest even, to zero, up, down. Default: to
 * integers to zero, to floating point to nearest even.
 *
 * The names are macros, since functions would be needed for each pair of types. Here are their
 * parts; S is the type of the argument, T that of the result.
 */
#ifndef OUTBOARD_DIALECT_CONVERSIONS_H
#define OUTBOARD_DIALECT_CONVERSIONS_H

/* The type of a scalar, without const. */
#define OB_TYPE(x) __typeof__(+(x))
#define OB_IS_REAL(S) ((S)0.5f != (S)0)

/* The largest value of an integer type plus 1, as a float literal, exact in every type. */
#define OB_END_char 0x1p7f
#define OB_END_uchar 0x1p8f
#define OB_END_short 0x1p15f
#define OB_END_ushort 0x1p16f
#define OB_END_int 0x1p31f
#define OB_END_uint 0x1p32f
#define OB_END_long 0x1p63f
#define OB_END_ulong 0x1p64f
#define OB_LEAST_char CHAR_MIN
#define OB_LEAST_uchar 0
#define OB_LEAST_short SHRT_MIN
#define OB_LEAST_ushort 0
#define OB_LEAST_int INT_MIN
#define OB_LEAST_uint 0
#define OB_LEAST_long LONG_MIN
#define OB_LEAST_ulong 0
#define OB_LARGEST_char CHAR_MAX
#define OB_LARGEST_uchar UCHAR_MAX
#define OB_LARGEST_short SHRT_MAX
#define OB_LARGEST_ushort USHRT_MAX
#define OB_LARGEST_int INT_MAX
#define OB_LARGEST_uint UINT_MAX
#define OB_LARGEST_long LONG_MAX
#define OB_LARGEST_ulong ULONG_MAX

/* A scalar as the nearest integer of type T; 0 for NaN. */
#define OB_SATURATED(T, x)                                                     \
  ({                                                                           \
    const OB_TYPE(x) ob_x = (x);                                               \
    T ob_r;                                                                    \
    if (OB_IS_REAL(OB_TYPE(x))) {                                              \
      const int ob_low = ob_x <= (OB_TYPE(x))OB_LEAST_##T;                     \
      const int ob_high = ob_x >= (OB_TYPE(x))OB_END_##T;                      \
      ob_r = ob_low || ob_high || ob_x != ob_x ? (T)0 : (T)ob_x;               \
      ob_r = ob_low ? (T)OB_LEAST_##T : ob_high ? (T)OB_LARGEST_##T : ob_r;    \
    } else {                                                                   \
      const int ob_low = ob_x < 0 && (long)ob_x < (long)OB_LEAST_##T;          \
      const int ob_high = ob_x > 0 && (ulong)ob_x > (ulong)OB_LARGEST_##T;     \
      ob_r = ob_low ? (T)OB_LEAST_##T : ob_high ? (T)OB_LARGEST_##T : (T)ob_x; \
    }                                                                          \
    ob_r;                                                                      \
  })

/* A scalar rounded to an integer in its type. */
#define OB_WHOLE(ROUND, x)                                                                         \
  ({                                                                                               \
    OB_TYPE(x) ob_w = (x);                                                                         \
    if (OB_IS_REAL(OB_TYPE(x)))                                                                    \
      ob_w = sizeof(ob_w) == 8 ? (OB_TYPE(x))ROUND((double)ob_w) : (OB_TYPE(x))ROUND((float)ob_w); \
    ob_w;                                                                                          \
  })
#define OB_TO_INTEGER_(T, x) ((T)(x))
#define OB_TO_INTEGER_rte(T, x) ((T)OB_WHOLE(rint, x))
#define OB_TO_INTEGER_rtz(T, x) ((T)(x))
#define OB_TO_INTEGER_rtp(T, x) ((T)OB_WHOLE(ceil, x))
#define OB_TO_INTEGER_rtn(T, x) ((T)OB_WHOLE(floor, x))
#define OB_TO_SATURATED_(T, x) OB_SATURATED(T, x)
#define OB_TO_SATURATED_rte(T, x) OB_SATURATED(T, OB_WHOLE(rint, x))
#define OB_TO_SATURATED_rtz(T, x) OB_SATURATED(T, x)
#define OB_TO_SATURATED_rtp(T, x) OB_SATURATED(T, OB_WHOLE(ceil, x))
#define OB_TO_SATURATED_rtn(T, x) OB_SATURATED(T, OB_WHOLE(floor, x))

/* Adjacent values of a scalar that is neither NaN nor the infinity in that direction. */
#define OB_NEIGHBOURS(T, I, LEAST)                                           \
  OB_FUNCTION T ob_above(T x) {                                              \
    const I bits = __builtin_astype(x, I);                                   \
    return __builtin_astype(x == 0 ? (I)1 : x > 0 ? bits + 1 : bits - 1, T); \
  }                                                                          \
  OB_FUNCTION T ob_below(T x) { return -ob_above(-x); }
OB_NEIGHBOURS(float, int, 1)
OB_NEIGHBOURS(double, long, 1)

/* True if a floating-point scalar is above, or below, one of another type, exactly. */
#define OB_IS_ABOVE(r, x)                  \
  (OB_IS_REAL(OB_TYPE(x)) || sizeof(x) < 8 \
       ? (double)(r) > (double)(x)         \
       : (r) >= ((OB_TYPE(x)) - 1 < 0 ? 0x1p63f : 0x1p64f) || (OB_TYPE(x))(r) > (x))
#define OB_IS_BELOW(r, x)                  \
  (OB_IS_REAL(OB_TYPE(x)) || sizeof(x) < 8 \
       ? (double)(r) < (double)(x)         \
       : (r) < ((OB_TYPE(x)) - 1 < 0 ? 0x1p63f : 0x1p64f) && (OB_TYPE(x))(r) < (x))
#define OB_DIRECTED(T, x, DOWN, UP)                               \
  ({                                                              \
    const OB_TYPE(x) ob_x = (x);                                  \
    T ob_r = (T)ob_x;                                             \
    if ((DOWN) && OB_IS_ABOVE(ob_r, ob_x)) ob_r = ob_below(ob_r); \
    if ((UP) && OB_IS_BELOW(ob_r, ob_x)) ob_r = ob_above(ob_r);   \
    ob_r;                                                         \
  })
#define OB_TO_REAL_(T, x) ((T)(x))
#define OB_TO_REAL_rte(T, x) ((T)(x))
#define OB_TO_REAL_rtz(T, x) OB_DIRECTED(T, x, ob_x > 0, ob_x < 0)
#define OB_TO_REAL_rtp(T, x) OB_DIRECTED(T, x, 0, 1)
#define OB_TO_REAL_rtn(T, x) OB_DIRECTED(T, x, 1, 0)

/* CONVERT(T, x) for each of n elements, if the language's vector conversion does not apply. */
#define OB_EACH(CONVERT, T, n, x)                                                \
  ({                                                                             \
    const __typeof__(x) ob_v = (x);                                              \
    T##n ob_each;                                                                \
    for (int ob_i = 0; ob_i < n; ++ob_i) ob_each[ob_i] = CONVERT(T, ob_v[ob_i]); \
    ob_each;                                                                     \
  })

/* ---- Names of reinterpretations, and of conversions with default rounding ---- */

#define as_char(x) __builtin_astype((x), char)
#define as_char2(x) __builtin_astype((x), char2)
#define as_char3(x) __builtin_astype((x), char3)
#define as_char4(x) __builtin_astype((x), char4)
#define as_char8(x) __builtin_astype((x), char8)
#define as_char16(x) __builtin_astype((x), char16)
#define convert_char(x) ((char)(x))
#define convert_char2(x) __builtin_convertvector((x), char2)
#define convert_char3(x) __builtin_convertvector((x), char3)
#define convert_char4(x) __builtin_convertvector((x), char4)
#define convert_char8(x) __builtin_convertvector((x), char8)
#define convert_char16(x) __builtin_convertvector((x), char16)
#define convert_char_sat(x) OB_TO_SATURATED_(char, x)
#define convert_char2_sat(x) OB_EACH(OB_TO_SATURATED_, char, 2, x)
#define convert_char3_sat(x) OB_EACH(OB_TO_SATURATED_, char, 3, x)
#define convert_char4_sat(x) OB_EACH(OB_TO_SATURATED_, char, 4, x)
#define convert_char8_sat(x) OB_EACH(OB_TO_SATURATED_, char, 8, x)
#define convert_char16_sat(x) OB_EACH(OB_TO_SATURATED_, char, 16, x)

#define as_uchar(x) __builtin_astype((x), uchar)
#define as_uchar2(x) __builtin_astype((x), uchar2)
#define as_uchar3(x) __builtin_astype((x), uchar3)
#define as_uchar4(x) __builtin_astype((x), uchar4)
#define as_uchar8(x) __builtin_astype((x), uchar8)
#define as_uchar16(x) __builtin_astype((x), uchar16)
#define convert_uchar(x) ((uchar)(x))
#define convert_uchar2(x) __builtin_convertvector((x), uchar2)
#define convert_uchar3(x) __builtin_convertvector((x), uchar3)
#define convert_uchar4(x) __builtin_convertvector((x), uchar4)
#define convert_uchar8(x) __builtin_convertvector((x), uchar8)
#define convert_uchar16(x) __builtin_convertvector((x), uchar16)
#define convert_uchar_sat(x) OB_TO_SATURATED_(uchar, x)
#define convert_uchar2_sat(x) OB_EACH(OB_TO_SATURATED_, uchar, 2, x)
#define convert_uchar3_sat(x) OB_EACH(OB_TO_SATURATED_, uchar, 3, x)
#define convert_uchar4_sat(x) OB_EACH(OB_TO_SATURATED_, uchar, 4, x)
#define convert_uchar8_sat(x) OB_EACH(OB_TO_SATURATED_, uchar, 8, x)
#define convert_uchar16_sat(x) OB_EACH(OB_TO_SATURATED_, uchar, 16, x)

#define as_short(x) __builtin_astype((x), short)
#define as_short2(x) __builtin_astype((x), short2)
#define as_short3(x) __builtin_astype((x), short3)
#define as_short4(x) __builtin_astype((x), short4)
#define as_short8(x) __builtin_astype((x), short8)
#define as_short16(x) __builtin_astype((x), short16)
#define convert_short(x) ((short)(x))
#define convert_short2(x) __builtin_convertvector((x), short2)
#define convert_short3(x) __builtin_convertvector((x), short3)
#define convert_short4(x) __builtin_convertvector((x), short4)
#define convert_short8(x) __builtin_convertvector((x), short8)
#define convert_short16(x) __builtin_convertvector((x), short16)
#define convert_short_sat(x) OB_TO_SATURATED_(short, x)
#define convert_short2_sat(x) OB_EACH(OB_TO_SATURATED_, short, 2, x)
#define convert_short3_sat(x) OB_EACH(OB_TO_SATURATED_, short, 3, x)
#define convert_short4_sat(x) OB_EACH(OB_TO_SATURATED_, short, 4, x)
#define convert_short8_sat(x) OB_EACH(OB_TO_SATURATED_, short, 8, x)
#define convert_short16_sat(x) OB_EACH(OB_TO_SATURATED_, short, 16, x)

#define as_ushort(x) __builtin_astype((x), ushort)
#define as_ushort2(x) __builtin_astype((x), ushort2)
#define as_ushort3(x) __builtin_astype((x), ushort3)
#define as_ushort4(x) __builtin_astype((x), ushort4)
#define as_ushort8(x) __builtin_astype((x), ushort8)
#define as_ushort16(x) __builtin_astype((x), ushort16)
#define convert_ushort(x) ((ushort)(x))
#define convert_ushort2(x) __builtin_convertvector((x), ushort2)
#define convert_ushort3(x) __builtin_convertvector((x), ushort3)
#define convert_ushort4(x) __builtin_convertvector((x), ushort4)
#define convert_ushort8(x) __builtin_convertvector((x), ushort8)
#define convert_ushort16(x) __builtin_convertvector((x), ushort16)
#define convert_ushort_sat(x) OB_TO_SATURATED_(ushort, x)
#define convert_ushort2_sat(x) OB_EACH(OB_TO_SATURATED_, ushort, 2, x)
#define convert_ushort3_sat(x) OB_EACH(OB_TO_SATURATED_, ushort, 3, x)
#define convert_ushort4_sat(x) OB_EACH(OB_TO_SATURATED_, ushort, 4, x)
#define convert_ushort8_sat(x) OB_EACH(OB_TO_SATURATED_, ushort, 8, x)
#define convert_ushort16_sat(x) OB_EACH(OB_TO_SATURATED_, ushort, 16, x)

#define as_int(x) __builtin_astype((x), int)
#define as_int2(x) __builtin_astype((x), int2)
#define as_int3(x) __builtin_astype((x), int3)
#define as_int4(x) __builtin_astype((x), int4)
#define as_int8(x) __builtin_astype((x), int8)
#define as_int16(x) __builtin_astype((x), int16)
#define convert_int(x) ((int)(x))
#define convert_int2(x) __builtin_convertvector((x), int2)
#define convert_int3(x) __builtin_convertvector((x), int3)
#define convert_int4(x) __builtin_convertvector((x), int4)
#define convert_int8(x) __builtin_convertvector((x), int8)
#define convert_int16(x) __builtin_convertvector((x), int16)
#define convert_int_sat(x) OB_TO_SATURATED_(int, x)
#define convert_int2_sat(x) OB_EACH(OB_TO_SATURATED_, int, 2, x)
#define convert_int3_sat(x) OB_EACH(OB_TO_SATURATED_, int, 3, x)
#define convert_int4_sat(x) OB_EACH(OB_TO_SATURATED_, int, 4, x)
#define convert_int8_sat(x) OB_EACH(OB_TO_SATURATED_, int, 8, x)
#define convert_int16_sat(x) OB_EACH(OB_TO_SATURATED_, int, 16, x)

#define as_uint(x) __builtin_astype((x), uint)
#define as_uint2(x) __builtin_astype((x), uint2)
#define as_uint3(x) __builtin_astype((x), uint3)
#define as_uint4(x) __builtin_astype((x), uint4)
#define as_uint8(x) __builtin_astype((x), uint8)
#define as_uint16(x) __builtin_astype((x), uint16)
#define convert_uint(x) ((uint)(x))
#define convert_uint2(x) __builtin_convertvector((x), uint2)
#define convert_uint3(x) __builtin_convertvector((x), uint3)
#define convert_uint4(x) __builtin_convertvector((x), uint4)
#define convert_uint8(x) __builtin_convertvector((x), uint8)
#define convert_uint16(x) __builtin_convertvector((x), uint16)
#define convert_uint_sat(x) OB_TO_SATURATED_(uint, x)
#define convert_uint2_sat(x) OB_EACH(OB_TO_SATURATED_, uint, 2, x)
#define convert_uint3_sat(x) OB_EACH(OB_TO_SATURATED_, uint, 3, x)
#define convert_uint4_sat(x) OB_EACH(OB_TO_SATURATED_, uint, 4, x)
#define convert_uint8_sat(x) OB_EACH(OB_TO_SATURATED_, uint, 8, x)
#define convert_uint16_sat(x) OB_EACH(OB_TO_SATURATED_, uint, 16, x)

#define as_long(x) __builtin_astype((x), long)
#define as_long2(x) __builtin_astype((x), long2)
#define as_long3(x) __builtin_astype((x), long3)
#define as_long4(x) __builtin_astype((x), long4)
#define as_long8(x) __builtin_astype((x), long8)
#define as_long16(x) __builtin_astype((x), long16)
#define convert_long(x) ((long)(x))
#define convert_long2(x) __builtin_convertvector((x), long2)
#define convert_long3(x) __builtin_convertvector((x), long3)
#define convert_long4(x) __builtin_convertvector((x), long4)
#define convert_long8(x) __builtin_convertvector((x), long8)
#define convert_long16(x) __builtin_convertvector((x), long16)
#define convert_long_sat(x) OB_TO_SATURATED_(long, x)
#define convert_long2_sat(x) OB_EACH(OB_TO_SATURATED_, long, 2, x)
#define convert_long3_sat(x) OB_EACH(OB_TO_SATURATED_, long, 3, x)
#define convert_long4_sat(x) OB_EACH(OB_TO_SATURATED_, long, 4, x)
#define convert_long8_sat(x) OB_EACH(OB_TO_SATURATED_, long, 8, x)
#define convert_long16_sat(x) OB_EACH(OB_TO_SATURATED_, long, 16, x)

#define as_ulong(x) __builtin_astype((x), ulong)
#define as_ulong2(x) __builtin_astype((x), ulong2)
#define as_ulong3(x) __builtin_astype((x), ulong3)
#define as_ulong4(x) __builtin_astype((x), ulong4)
#define as_ulong8(x) __builtin_astype((x), ulong8)
#define as_ulong16(x) __builtin_astype((x), ulong16)
#define convert_ulong(x) ((ulong)(x))
#define convert_ulong2(x) __builtin_convertvector((x), ulong2)
#define convert_ulong3(x) __builtin_convertvector((x), ulong3)
#define convert_ulong4(x) __builtin_convertvector((x), ulong4)
#define convert_ulong8(x) __builtin_convertvector((x), ulong8)
#define convert_ulong16(x) __builtin_convertvector((x), ulong16)
#define convert_ulong_sat(x) OB_TO_SATURATED_(ulong, x)
#define convert_ulong2_sat(x) OB_EACH(OB_TO_SATURATED_, ulong, 2, x)
#define convert_ulong3_sat(x) OB_EACH(OB_TO_SATURATED_, ulong, 3, x)
#define convert_ulong4_sat(x) OB_EACH(OB_TO_SATURATED_, ulong, 4, x)
#define convert_ulong8_sat(x) OB_EACH(OB_TO_SATURATED_, ulong, 8, x)
#define convert_ulong16_sat(x) OB_EACH(OB_TO_SATURATED_, ulong, 16, x)

#define as_float(x) __builtin_astype((x), float)
#define as_float2(x) __builtin_astype((x), float2)
#define as_float3(x) __builtin_astype((x), float3)
#define as_float4(x) __builtin_astype((x), float4)
#define as_float8(x) __builtin_astype((x), float8)
#define as_float16(x) __builtin_astype((x), float16)
#define convert_float(x) ((float)(x))
#define convert_float2(x) __builtin_convertvector((x), float2)
#define convert_float3(x) __builtin_convertvector((x), float3)
#define convert_float4(x) __builtin_convertvector((x), float4)
#define convert_float8(x) __builtin_convertvector((x), float8)
#define convert_float16(x) __builtin_convertvector((x), float16)

#define as_double(x) __builtin_astype((x), double)
#define as_double2(x) __builtin_astype((x), double2)
#define as_double3(x) __builtin_astype((x), double3)
#define as_double4(x) __builtin_astype((x), double4)
#define as_double8(x) __builtin_astype((x), double8)
#define as_double16(x) __builtin_astype((x), double16)
#define convert_double(x) ((double)(x))
#define convert_double2(x) __builtin_convertvector((x), double2)
#define convert_double3(x) __builtin_convertvector((x), double3)
#define convert_double4(x) __builtin_convertvector((x), double4)
#define convert_double8(x) __builtin_convertvector((x), double8)
#define convert_double16(x) __builtin_convertvector((x), double16)

#include "rounded_conversion_names.h"

#endif
