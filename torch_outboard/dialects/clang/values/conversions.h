/*
 * as_<type>: the same bits. convert_<type>: the same value; _sat saturates to the range of an
 * integer type; _rte, _rtz, _rtp, _rtn round to nearest even, to zero, up, down. Default: to
 * integers to zero, to floating point to nearest even.
 *
 * The names are macros, since functions would be needed for each pair of types: setup.py writes
 * them to conversion_names.h. Here are their parts; S is the type of the argument, T that of the
 * result.
 */
#ifndef OUTBOARD_DIALECT_CONVERSIONS_H
#define OUTBOARD_DIALECT_CONVERSIONS_H

/* The type of a scalar, without const. */
#define OB_TYPE(x) __typeof__(+(x))
#define OB_IS_REAL(S) ((S)0.5f != (S)0)

/* The least and largest values of an integer type, and the latter plus 1, which a float holds. */
#define OB_LEAST(T) ((T)((T) - 1 < 0 ? 1UL << (sizeof(T) * CHAR_BIT - 1) : 0))
#define OB_LARGEST(T) ((T)~OB_LEAST(T))
#define OB_END(T) ((float)(OB_LARGEST(T) / 2 + 1) * 2.0f)

/* A scalar as the nearest integer of type T; 0 for NaN. */
#define OB_SATURATED(T, x)                                                \
  ({                                                                      \
    const OB_TYPE(x) ob_x = (x);                                          \
    T ob_r;                                                               \
    if (OB_IS_REAL(OB_TYPE(x))) {                                         \
      const int ob_low = ob_x <= (OB_TYPE(x))OB_LEAST(T);                 \
      const int ob_high = ob_x >= (OB_TYPE(x))OB_END(T);                  \
      ob_r = ob_low || ob_high || ob_x != ob_x ? (T)0 : (T)ob_x;          \
      ob_r = ob_low ? OB_LEAST(T) : ob_high ? OB_LARGEST(T) : ob_r;       \
    } else {                                                              \
      const int ob_low = ob_x < 0 && (long)ob_x < (long)OB_LEAST(T);      \
      const int ob_high = ob_x > 0 && (ulong)ob_x > (ulong)OB_LARGEST(T); \
      ob_r = ob_low ? OB_LEAST(T) : ob_high ? OB_LARGEST(T) : (T)ob_x;    \
    }                                                                     \
    ob_r;                                                                 \
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
#define OB_NEIGHBOURS(T, I)                                                  \
  OB_FUNCTION T ob_above(T x) {                                              \
    const I bits = __builtin_astype(x, I);                                   \
    return __builtin_astype(x == 0 ? (I)1 : x > 0 ? bits + 1 : bits - 1, T); \
  }                                                                          \
  OB_FUNCTION T ob_below(T x) { return -ob_above(-x); }
OB_NEIGHBOURS(float, int)
OB_NEIGHBOURS(double, long)

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

#include "conversion_names.h"

#endif
