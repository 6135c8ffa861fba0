/* Comparisons of OpenCL C: true is 1 for scalars and -1 per element for vectors. */
#ifndef OUTBOARD_DIALECT_RELATIONS_H
#define OUTBOARD_DIALECT_RELATIONS_H

/* M: the type of comparisons: int for scalars, else an integer vector; EXPONENT: its bits. */
#define OB_RELATIONS(T, M, I, SIGN, EXPONENT)                                                 \
  OB_FUNCTION M isequal(T x, T y) { return x == y; }                                          \
  OB_FUNCTION M isnotequal(T x, T y) { return x != y; }                                       \
  OB_FUNCTION M isgreater(T x, T y) { return x > y; }                                         \
  OB_FUNCTION M isgreaterequal(T x, T y) { return x >= y; }                                   \
  OB_FUNCTION M isless(T x, T y) { return x < y; }                                            \
  OB_FUNCTION M islessequal(T x, T y) { return x <= y; }                                      \
  OB_FUNCTION M islessgreater(T x, T y) { return (x < y) | (x > y); }                         \
  OB_FUNCTION M isordered(T x, T y) { return (x == x) & (y == y); }                           \
  OB_FUNCTION M isunordered(T x, T y) { return (x != x) | (y != y); }                         \
  OB_FUNCTION M isnan(T x) { return x != x; }                                                 \
  OB_FUNCTION M isinf(T x) { return (__builtin_astype(x, I) & ~(I)(SIGN)) == (I)(EXPONENT); } \
  OB_FUNCTION M isfinite(T x) {                                                               \
    return (__builtin_astype(x, I) & (I)(EXPONENT)) != (I)(EXPONENT);                         \
  }                                                                                           \
  OB_FUNCTION M isnormal(T x) {                                                               \
    const I exponent = __builtin_astype(x, I) & (I)(EXPONENT);                                \
    return (exponent != (I)(0)) & (exponent != (I)(EXPONENT));                                \
  }                                                                                           \
  OB_FUNCTION M signbit(T x) { return __builtin_astype(x, I) < 0; }
#define OB_RELATIONS_FLOAT(T, I) OB_RELATIONS(T, I, I, 0x80000000u, 0x7f800000)
#define OB_RELATIONS_DOUBLE(T, I, M) \
  OB_RELATIONS(T, M, I, 0x8000000000000000UL, 0x7ff0000000000000L)
#define OB_RELATIONS_DOUBLES(T, I) OB_RELATIONS_DOUBLE(T, I, I)
OB_WIDTHS_2(OB_RELATIONS_FLOAT, float, int)
OB_RELATIONS_DOUBLE(double, long, int)
OB_VECTOR_WIDTHS_2(OB_RELATIONS_DOUBLES, double, long)

/* Vectors: true if the sign bit of any element is set, or of all. */
#define OB_ANY_ALL(T)                                               \
  OB_FUNCTION int any(T x) { return x < 0; }                        \
  OB_FUNCTION int all(T x) { return x < 0; }                        \
  OB_FUNCTION int any(T##2 x) { return any((T)(x.x | x.y)); }       \
  OB_FUNCTION int all(T##2 x) { return all((T)(x.x & x.y)); }       \
  OB_FUNCTION int any(T##3 x) { return any((T)(x.x | x.y | x.z)); } \
  OB_FUNCTION int all(T##3 x) { return all((T)(x.x & x.y & x.z)); } \
  OB_FUNCTION int any(T##4 x) { return any(x.lo | x.hi); }          \
  OB_FUNCTION int all(T##4 x) { return all(x.lo & x.hi); }          \
  OB_FUNCTION int any(T##8 x) { return any(x.lo | x.hi); }          \
  OB_FUNCTION int all(T##8 x) { return all(x.lo & x.hi); }          \
  OB_FUNCTION int any(T##16 x) { return any(x.lo | x.hi); }         \
  OB_FUNCTION int all(T##16 x) { return all(x.lo & x.hi); }
OB_ANY_ALL(char)
OB_ANY_ALL(short)
OB_ANY_ALL(int)
OB_ANY_ALL(long)

/* The operator ?: selects by sign bits for vectors and by truth for scalars, as select does. */
#define select(a, b, c) ((c) ? (b) : (a))

#define OB_BITSELECT(T) \
  OB_FUNCTION T bitselect(T a, T b, T c) { return (a & ~c) | (b & c); }
#define OB_BITSELECT_OF(T) OB_WIDTHS(OB_BITSELECT, T)
OB_INTEGERS(OB_BITSELECT_OF)
#define OB_BITSELECT_REAL(T, I)                                                                \
  OB_FUNCTION T bitselect(T a, T b, T c) {                                                     \
    return __builtin_astype(                                                                   \
        bitselect(__builtin_astype(a, I), __builtin_astype(b, I), __builtin_astype(c, I)), T); \
  }
OB_WIDTHS_2(OB_BITSELECT_REAL, float, int)
OB_WIDTHS_2(OB_BITSELECT_REAL, double, long)

#endif
