/* Loads and stores of vectors, also of halves, and shuffles. */
#ifndef OUTBOARD_DIALECT_VECTORS_H
#define OUTBOARD_DIALECT_VECTORS_H

/* Vectors in memory have the alignment of an element. */
#define OB_MEMORY(T, n)                                                              \
  typedef T##n ob_memory_##T##n __attribute__((aligned(__alignof__(T)), may_alias)); \
  OB_FUNCTION T##n vload##n(size_t i, const T* p) {                                  \
    return *(const ob_memory_##T##n*)(p + i * n);                                    \
  }                                                                                  \
  OB_FUNCTION T##n vload##n(size_t i, const __constant T* p) {                       \
    return *(const __constant ob_memory_##T##n*)(p + i * n);                         \
  }                                                                                  \
  OB_FUNCTION void vstore##n(T##n v, size_t i, T* p) { *(ob_memory_##T##n*)(p + i * n) = v; }
/* A vector of three has the size of four in registers and of three in memory. */
#define OB_MEMORY_OF_3(T)                                    \
  OB_FUNCTION T##3 vload3(size_t i, const T* p) {            \
    return (T##3)(p[3 * i], p[3 * i + 1], p[3 * i + 2]);     \
  }                                                          \
  OB_FUNCTION T##3 vload3(size_t i, const __constant T* p) { \
    return (T##3)(p[3 * i], p[3 * i + 1], p[3 * i + 2]);     \
  }                                                          \
  OB_FUNCTION void vstore3(T##3 v, size_t i, T* p) {         \
    p[3 * i] = v.x;                                          \
    p[3 * i + 1] = v.y;                                      \
    p[3 * i + 2] = v.z;                                      \
  }
#define OB_MEMORY_OF(T) \
  OB_MEMORY(T, 2) OB_MEMORY(T, 4) OB_MEMORY(T, 8) OB_MEMORY(T, 16) OB_MEMORY_OF_3(T)
OB_MEMORY_OF(char)
OB_MEMORY_OF(uchar)
OB_MEMORY_OF(short)
OB_MEMORY_OF(ushort)
OB_MEMORY_OF(int)
OB_MEMORY_OF(uint)
OB_MEMORY_OF(long)
OB_MEMORY_OF(ulong)
OB_MEMORY_OF(float)
OB_MEMORY_OF(double)

#include "half.h"

/* shuffle: the elements of a vector selected by the mask; shuffle2: of two concatenated vectors. */
#define OB_SHUFFLE_FROM(T, M, n, m)                          \
  OB_FUNCTION T##n shuffle(T##m x, M##n mask) {              \
    T##n r;                                                  \
    for (int i = 0; i < n; ++i) r[i] = x[mask[i] & (m - 1)]; \
    return r;                                                \
  }                                                          \
  OB_FUNCTION T##n shuffle2(T##m x, T##m y, M##n mask) {     \
    T##n r;                                                  \
    for (int i = 0; i < n; ++i) {                            \
      const int place = mask[i] & (2 * m - 1);               \
      r[i] = place < m ? x[place] : y[place - m];            \
    }                                                        \
    return r;                                                \
  }
#define OB_SHUFFLE_TO(T, M, n) \
  OB_SHUFFLE_FROM(T, M, n, 2)  \
  OB_SHUFFLE_FROM(T, M, n, 4) OB_SHUFFLE_FROM(T, M, n, 8) OB_SHUFFLE_FROM(T, M, n, 16)
#define OB_SHUFFLE(T, M) \
  OB_SHUFFLE_TO(T, M, 2) OB_SHUFFLE_TO(T, M, 4) OB_SHUFFLE_TO(T, M, 8) OB_SHUFFLE_TO(T, M, 16)
OB_SHUFFLE(char, uchar)
OB_SHUFFLE(uchar, uchar)
OB_SHUFFLE(short, ushort)
OB_SHUFFLE(ushort, ushort)
OB_SHUFFLE(int, uint)
OB_SHUFFLE(uint, uint)
OB_SHUFFLE(long, ulong)
OB_SHUFFLE(ulong, ulong)
OB_SHUFFLE(float, uint)
OB_SHUFFLE(double, ulong)

#endif
