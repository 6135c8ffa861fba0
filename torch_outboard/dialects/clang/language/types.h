/* Types, constants and address spaces of OpenCL C. */
#ifndef OUTBOARD_DIALECT_TYPES_H
#define OUTBOARD_DIALECT_TYPES_H

/*
 * One address space: a function without address-space qualifiers serves all pointers, and __local
 * arrays are on the stack of the group's only work-item. Program-scope constants keep __constant,
 * which the language requires.
 */
#define __global
#define global
#define __local
#define local
#define __private
#define private

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;

/* DEFINE(T) for each type. */
#define OB_INTEGERS(DEFINE) \
  DEFINE(char)              \
  DEFINE(uchar) DEFINE(short) DEFINE(ushort) DEFINE(int) DEFINE(uint) DEFINE(long) DEFINE(ulong)
#define OB_NUMBERS(DEFINE) OB_INTEGERS(DEFINE) DEFINE(float) DEFINE(double)

#define OB_VECTORS_OF(T)                              \
  typedef T T##2 __attribute__((ext_vector_type(2))); \
  typedef T T##3 __attribute__((ext_vector_type(3))); \
  typedef T T##4 __attribute__((ext_vector_type(4))); \
  typedef T T##8 __attribute__((ext_vector_type(8))); \
  typedef T T##16 __attribute__((ext_vector_type(16)));
OB_NUMBERS(OB_VECTORS_OF)

/* An overloaded function, inlined at each call. */
#define OB_FUNCTION static inline __attribute__((overloadable, always_inline, unused))

/* DEFINE(T) for T and its vectors; variants with further arguments. */
#define OB_WIDTHS(DEFINE, T) DEFINE(T) OB_VECTOR_WIDTHS(DEFINE, T)
#define OB_VECTOR_WIDTHS(DEFINE, T) \
  DEFINE(T##2) DEFINE(T##3) DEFINE(T##4) DEFINE(T##8) DEFINE(T##16)
/* DEFINE(T, A) for T, A and their vectors of the same width. */
#define OB_WIDTHS_2(DEFINE, T, A) DEFINE(T, A) OB_VECTOR_WIDTHS_2(DEFINE, T, A)
#define OB_VECTOR_WIDTHS_2(DEFINE, T, A) \
  DEFINE(T##2, A##2) DEFINE(T##3, A##3) DEFINE(T##4, A##4) DEFINE(T##8, A##8) DEFINE(T##16, A##16)
/* DEFINE(T, A, S) for vectors T and A of S. */
#define OB_VECTOR_WIDTHS_3(DEFINE, T, A, S) \
  DEFINE(T##2, A##2, S)                     \
  DEFINE(T##3, A##3, S) DEFINE(T##4, A##4, S) DEFINE(T##8, A##8, S) DEFINE(T##16, A##16, S)

#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-127 - 1)
#define UCHAR_MAX 255
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define SHRT_MAX 32767
#define SHRT_MIN (-32767 - 1)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 0xffffffffU
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-0x7fffffffffffffffL - 1)
#define ULONG_MAX 0xffffffffffffffffUL

#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_10_EXP 38
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MIN_EXP (-125)
#define FLT_RADIX 2
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define FLT_EPSILON 0x1.0p-23f
#define MAXFLOAT FLT_MAX
#define HUGE_VALF __builtin_inff()
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define FP_ILOGB0 INT_MIN
#define FP_ILOGBNAN INT_MAX

/* Defined by bits: -cl-single-precision-constant makes a float of every literal. */
#define OB_DOUBLE_BITS(bits) __builtin_astype(bits##UL, double)
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#define DBL_MAX_10_EXP 308
#define DBL_MAX_EXP 1024
#define DBL_MIN_10_EXP (-307)
#define DBL_MIN_EXP (-1021)
#define DBL_RADIX 2
#define DBL_MAX OB_DOUBLE_BITS(0x7fefffffffffffff)
#define DBL_MIN OB_DOUBLE_BITS(0x0010000000000000)
#define DBL_EPSILON OB_DOUBLE_BITS(0x3cb0000000000000)
#define HUGE_VAL __builtin_inf()

#define M_E_F 0x1.5bf0a8p+1f
#define M_LOG2E_F 0x1.715476p+0f
#define M_LOG10E_F 0x1.bcb7b2p-2f
#define M_LN2_F 0x1.62e430p-1f
#define M_LN10_F 0x1.26bb1cp+1f
#define M_PI_F 0x1.921fb6p+1f
#define M_PI_2_F 0x1.921fb6p+0f
#define M_PI_4_F 0x1.921fb6p-1f
#define M_1_PI_F 0x1.45f306p-2f
#define M_2_PI_F 0x1.45f306p-1f
#define M_2_SQRTPI_F 0x1.20dd76p+0f
#define M_SQRT2_F 0x1.6a09e6p+0f
#define M_SQRT1_2_F 0x1.6a09e6p-1f
#define M_E OB_DOUBLE_BITS(0x4005bf0a8b145769)
#define M_LOG2E OB_DOUBLE_BITS(0x3ff71547652b82fe)
#define M_LOG10E OB_DOUBLE_BITS(0x3fdbcb7b1526e50e)
#define M_LN2 OB_DOUBLE_BITS(0x3fe62e42fefa39ef)
#define M_LN10 OB_DOUBLE_BITS(0x40026bb1bbb55516)
#define M_PI OB_DOUBLE_BITS(0x400921fb54442d18)
#define M_PI_2 OB_DOUBLE_BITS(0x3ff921fb54442d18)
#define M_PI_4 OB_DOUBLE_BITS(0x3fe921fb54442d18)
#define M_1_PI OB_DOUBLE_BITS(0x3fd45f306dc9c883)
#define M_2_PI OB_DOUBLE_BITS(0x3fe45f306dc9c883)
#define M_2_SQRTPI OB_DOUBLE_BITS(0x3ff20dd750429b6d)
#define M_SQRT2 OB_DOUBLE_BITS(0x3ff6a09e667f3bcd)
#define M_SQRT1_2 OB_DOUBLE_BITS(0x3fe6a09e667f3bcd)

#endif
