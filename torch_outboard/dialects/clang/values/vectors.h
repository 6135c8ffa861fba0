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
OB_NUMBERS(OB_MEMORY_OF)

/* ---- half ---- */

/*
 * Half precision in memory: vload_half<n>, vstore_half<n>[_rte|_rtz|_rtp|_rtn], and the aligned
 * vloada_half<n> and vstorea_half<n>, where three elements have the size of four.
 */
/* For vectors U of uint and F of float, of equal width. Halves are the low 16 bits. */
#define OB_HALF(U, F)                                                                              \
  OB_FUNCTION F ob_half_by_bits(U h) {                                                             \
    const U magnitude = (h & (U)(0x7fff)) << (U)(13);                                              \
    /* The bias of half is 112 smaller; the product normalizes denormal numbers exactly. */        \
    const U value = __builtin_astype(__builtin_astype(magnitude, F) * (F)(0x1p112f), U);           \
    const U special = magnitude | (U)(0x7f800000);                                                 \
    return __builtin_astype(                                                                       \
        (magnitude >= (U)(0x0f800000) ? special : value) | ((h & (U)(0x8000)) << (U)(16)), F);     \
  }                                                                                                \
  OB_FUNCTION U ob_bits_of_half(F x) {                                                             \
    const U bits = __builtin_astype(x, U), magnitude = bits & (U)(0x7fffffff);                     \
    /* Denormal: added to 0.5, whose last bit has the value of a denormal half's. */               \
    const U small =                                                                                \
        __builtin_astype(__builtin_astype(magnitude, F) + (F)(0.5f), U) - (U)(0x3f000000);         \
    const U even = (magnitude >> (U)(13)) & (U)(1);                                                \
    const U normal = (magnitude - (U)(0x37fff001) + even) >> (U)(13);                              \
    const U special = magnitude > (U)(0x7f800000) ? (U)(0x7e00) : (U)(0x7c00);                     \
    const U rounded = magnitude < (U)(0x38800000) ? small : normal;                                \
    return (magnitude >= (U)(0x47800000) ? special : rounded) | ((bits >> (U)(16)) & (U)(0x8000)); \
  }
/* Other rounding modes, from the nearest. */
#define OB_HALF_MODES(U, F)                                                        \
  OB_FUNCTION U ob_to_half_rte(F x) { return ob_to_half(x); }                      \
  OB_FUNCTION U ob_to_half_rtz(F x) {                                              \
    const U h = ob_to_half(x);                                                     \
    const F error = ob_from_half(h & (U)(0x7fff)) -                                \
                    __builtin_astype(__builtin_astype(x, U) & (U)(0x7fffffff), F); \
    return error > (F)(0) ? h - (U)(1) : h;                                        \
  }                                                                                \
  OB_FUNCTION U ob_to_half_rtp(F x) {                                              \
    const U h = ob_to_half(x);                                                     \
    const U above = h >= (U)(0x8000) ? h - (U)(1) : h + (U)(1);                    \
    return ob_from_half(h) < x ? above : h;                                        \
  }                                                                                \
  OB_FUNCTION U ob_to_half_rtn(F x) {                                              \
    const U h = ob_to_half(x);                                                     \
    const U below = h >= (U)(0x8000) ? h + (U)(1) : h - (U)(1);                    \
    return ob_from_half(h) > x ? below : h;                                        \
  }
OB_WIDTHS_2(OB_HALF, uint, float)

#define OB_HALF_PLAIN(n)                                                      \
  OB_FUNCTION float##n ob_from_half(uint##n h) { return ob_half_by_bits(h); } \
  OB_FUNCTION uint##n ob_to_half(float##n x) { return ob_bits_of_half(x); }
/* By processor instructions, if the compiler has a type for them. */
#if (defined(__F16C__) || defined(__aarch64__) || defined(__riscv_zfhmin)) && __clang_major__ >= 16
#define OB_HALF_BY_PROCESSOR(n)                                                    \
  typedef _Float16 ob_half##n __attribute__((ext_vector_type(n)));                 \
  OB_FUNCTION float##n ob_from_half(uint##n h) {                                   \
    const ushort##n bits = __builtin_convertvector(h, ushort##n);                  \
    return __builtin_convertvector(__builtin_astype(bits, ob_half##n), float##n);  \
  }                                                                                \
  OB_FUNCTION uint##n ob_to_half(float##n x) {                                     \
    const ob_half##n rounded = __builtin_convertvector(x, ob_half##n);             \
    return __builtin_convertvector(__builtin_astype(rounded, ushort##n), uint##n); \
  }
OB_FUNCTION float ob_from_half(uint h) { return (float)__builtin_astype((ushort)h, _Float16); }
OB_FUNCTION uint ob_to_half(float x) { return __builtin_astype((_Float16)x, ushort); }
#else
#define OB_HALF_BY_PROCESSOR(n) OB_HALF_PLAIN(n)
OB_HALF_PLAIN()
#endif
OB_HALF_PLAIN(2)
OB_HALF_PLAIN(3)
OB_HALF_BY_PROCESSOR(4)
OB_HALF_BY_PROCESSOR(8)
OB_HALF_BY_PROCESSOR(16)
OB_WIDTHS_2(OB_HALF_MODES, uint, float)

/*
 * A double as the float that rounds to the same half: inexact values round to odd, so that none is
 * a tie between two halves. (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums",
 * 2008.)
 */
OB_FUNCTION float ob_odd_float(double x) {
  const float nearest = (float)x;
  const uint bits = __builtin_astype(nearest, uint);
  if ((double)nearest == x || nearest != nearest || (bits & 1) != 0) return nearest;
  const int away = (double)nearest > 0 ? (double)nearest < x : (double)nearest > x;
  return __builtin_astype(nearest == 0 ? (x < 0 ? 0x80000001u : 1u)
                          : away       ? bits + 1
                                       : bits - 1,
                          float);
}
#define OB_ODD_FLOAT(n)                                    \
  OB_FUNCTION float##n ob_odd_float(double##n x) {         \
    float##n r;                                            \
    for (int i = 0; i < n; ++i) r[i] = ob_odd_float(x[i]); \
    return r;                                              \
  }
OB_ODD_FLOAT(2)
OB_ODD_FLOAT(3)
OB_ODD_FLOAT(4)
OB_ODD_FLOAT(8)
OB_ODD_FLOAT(16)

/* `half *` is only a pointer type; half has no values. */
OB_FUNCTION float vload_half(size_t i, const half* p) {
  return ob_from_half((uint)((const ushort*)p)[i]);
}
OB_FUNCTION float vload_half(size_t i, const __constant half* p) {
  return ob_from_half((uint)((const __constant ushort*)p)[i]);
}
OB_FUNCTION float vloada_half(size_t i, const half* p) { return vload_half(i, p); }
#define OB_STORE_HALF(MODE)                                         \
  OB_FUNCTION void vstore_half##MODE(float x, size_t i, half* p) {  \
    ((ushort*)p)[i] = (ushort)ob_to_half##MODE(x);                  \
  }                                                                 \
  OB_FUNCTION void vstore_half##MODE(double x, size_t i, half* p) { \
    vstore_half##MODE(ob_odd_float(x), i, p);                       \
  }
OB_STORE_HALF()
OB_STORE_HALF(_rte)
OB_STORE_HALF(_rtz)
OB_STORE_HALF(_rtp)
OB_STORE_HALF(_rtn)

#define OB_LOAD_HALVES(n, aligned)                                                        \
  OB_FUNCTION float##n vload_half##n(size_t i, const half* p) {                           \
    return ob_from_half(__builtin_convertvector(vload##n(i, (const ushort*)p), uint##n)); \
  }                                                                                       \
  OB_FUNCTION float##n vload_half##n(size_t i, const __constant half* p) {                \
    return ob_from_half(                                                                  \
        __builtin_convertvector(vload##n(i, (const __constant ushort*)p), uint##n));      \
  }                                                                                       \
  OB_FUNCTION float##n vloada_half##n(size_t i, const half* p) {                          \
    return vload_half##n(0, p + i * aligned);                                             \
  }
#define OB_STORE_HALVES_MODE(n, aligned, MODE)                                         \
  OB_FUNCTION void vstore_half##n##MODE(float##n x, size_t i, half* p) {               \
    vstore##n(__builtin_convertvector(ob_to_half##MODE(x), ushort##n), i, (ushort*)p); \
  }                                                                                    \
  OB_FUNCTION void vstore_half##n##MODE(double##n x, size_t i, half* p) {              \
    vstore_half##n##MODE(ob_odd_float(x), i, p);                                       \
  }                                                                                    \
  OB_FUNCTION void vstorea_half##n##MODE(float##n x, size_t i, half* p) {              \
    vstore_half##n##MODE(x, 0, p + i * aligned);                                       \
  }                                                                                    \
  OB_FUNCTION void vstorea_half##n##MODE(double##n x, size_t i, half* p) {             \
    vstore_half##n##MODE(x, 0, p + i * aligned);                                       \
  }
#define OB_HALVES(n, aligned)            \
  OB_LOAD_HALVES(n, aligned)             \
  OB_STORE_HALVES_MODE(n, aligned, )     \
  OB_STORE_HALVES_MODE(n, aligned, _rte) \
  OB_STORE_HALVES_MODE(n, aligned, _rtz) \
  OB_STORE_HALVES_MODE(n, aligned, _rtp) \
  OB_STORE_HALVES_MODE(n, aligned, _rtn)
OB_HALVES(2, 2)
OB_HALVES(3, 4)
OB_HALVES(4, 4)
OB_HALVES(8, 8)
OB_HALVES(16, 16)

/* ---- Shuffles ---- */

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
      const int index = mask[i] & (2 * m - 1);               \
      r[i] = index < m ? x[index] : y[index - m];            \
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
