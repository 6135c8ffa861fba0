/* Reductions of arrays in memory of the host. */
#include "host.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* else loops of unknown length are not vectorized */
#endif

static float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float from_bfloat16(uint16_t bits) { return from_bits((uint32_t)bits << 16); }

/* Rounds to nearest, ties to even. NaN stays NaN. */
static uint16_t to_bfloat16(float value) {
  uint32_t wide = to_bits(value);
  uint32_t rounded = (wide + 0x7fff + ((wide >> 16) & 1)) >> 16;
  return (uint16_t)(value != value ? (wide >> 16) | 0x40 : rounded);
}

/* Without branches, so that loops are vectorized. */
static float from_float16(uint16_t bits) {
  uint32_t rest = bits & 0x7fff, sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t normal = (rest << 13) + (112u << 23), special = (rest << 13) | 0x7f800000;
  uint32_t subnormal = to_bits((float)(int32_t)rest * 0x1p-24f);
  return from_bits(sign | (rest >= 0x7c00 ? special : rest >= 0x400 ? normal : subnormal));
}

static uint16_t to_float16(float value) {
  uint32_t wide = to_bits(value), sign = (wide >> 16) & 0x8000, rest = wide & 0x7fffffff;
  /* Rounded to ten mantissa bits; a carry goes into the exponent. */
  uint32_t normal = (rest - (112u << 23) + 0xfff + ((rest >> 13) & 1)) >> 13;
  /* The last bit of a float32 in [0.5, 1) is worth that of a subnormal float16. */
  uint32_t subnormal = to_bits(from_bits(rest) + 0.5f) - to_bits(0.5f);
  uint32_t finite = rest < 0x38800000 ? subnormal : rest < 0x477ff000 ? normal : 0x7c00;
  return (uint16_t)(sign | (rest > 0x7f800000 ? 0x7e00 : finite));
}

#define COMBINE(type, result)                     \
  for (uint32_t r = 1; r < ranks; r++) {          \
    const type* before = r == 1 ? parts[0] : out; \
    const type* next = parts[r];                  \
    for (uint64_t i = 0; i < count; i++) {        \
      const type a = before[i], b = next[i];      \
      out[i] = (type)(result);                    \
    }                                             \
  }                                               \
  break;

/* Integers are computed as `wide`, which wraps around. */
#define REDUCE(type, wide)                                                                       \
  static void reduce_##type(type* out, const type* const* parts, uint32_t ranks, uint64_t count, \
                            ob_reduction reduction) {                                            \
    if (ranks == 1) memcpy(out, parts[0], count * sizeof *out);                                  \
    switch (reduction) {                                                                         \
      case OB_REDUCTION_SUM:                                                                     \
      case OB_REDUCTION_AVERAGE:                                                                 \
        COMBINE(type, (wide)a + (wide)b)                                                         \
      case OB_REDUCTION_PRODUCT:                                                                 \
        COMBINE(type, (wide)a*(wide)b)                                                           \
      case OB_REDUCTION_MINIMUM:                                                                 \
        COMBINE(type, b < a ? b : a)                                                             \
      case OB_REDUCTION_MAXIMUM:                                                                 \
        COMBINE(type, a < b ? b : a)                                                             \
    }                                                                                            \
    if (reduction != OB_REDUCTION_AVERAGE) return;                                               \
    for (uint64_t i = 0; i < count; i++) out[i] = (type)(out[i] / (type)ranks);                  \
  }

REDUCE(uint8_t, uint64_t)
REDUCE(int8_t, uint64_t)
REDUCE(uint16_t, uint64_t)
REDUCE(int16_t, uint64_t)
REDUCE(uint32_t, uint64_t)
REDUCE(int32_t, uint64_t)
REDUCE(uint64_t, uint64_t)
REDUCE(int64_t, uint64_t)
REDUCE(float, float)
REDUCE(double, double)

/* Floating point of 16 bits is computed as float32, and rounded once. */
#define REDUCE_SMALL(name)                                                               \
  static void reduce_##name(uint16_t* out, const uint16_t* const* parts, uint32_t ranks, \
                            uint64_t count, ob_reduction reduction) {                    \
    enum { PIECE = 256 };                                                                \
    float all[PIECE], next[PIECE];                                                       \
    bool averages = reduction == OB_REDUCTION_AVERAGE;                                   \
    for (uint64_t begin = 0; begin < count; begin += PIECE) {                            \
      uint64_t n = count - begin < PIECE ? count - begin : PIECE;                        \
      for (uint64_t i = 0; i < n; i++) all[i] = from_##name(parts[0][begin + i]);        \
      for (uint32_t r = 1; r < ranks; r++) {                                             \
        for (uint64_t i = 0; i < n; i++) next[i] = from_##name(parts[r][begin + i]);     \
        reduce_float(all, (const float*[]){all, next}, 2, n,                             \
                     averages ? OB_REDUCTION_SUM : reduction);                           \
      }                                                                                  \
      float divisor = averages ? (float)ranks : 1;                                       \
      for (uint64_t i = 0; i < n; i++) out[begin + i] = to_##name(all[i] / divisor);     \
    }                                                                                    \
  }

REDUCE_SMALL(bfloat16)
REDUCE_SMALL(float16)

bool reduce_parts(uint32_t dtype, ob_reduction reduction, void* out, const void* const* parts,
                  uint32_t ranks, uint64_t count) {
#define CASE(bit, type)                                                                    \
  case bit:                                                                                \
    if (count > 0) reduce_##type(out, (const type* const*)parts, ranks, count, reduction); \
    return true;
  bool averages = reduction == OB_REDUCTION_AVERAGE;
  switch (dtype) {
    CASE(OB_DTYPE_FLOAT32, float)
    CASE(OB_DTYPE_FLOAT64, double)
    case OB_DTYPE_BFLOAT16:
      reduce_bfloat16(out, (const uint16_t* const*)parts, ranks, count, reduction);
      return true;
    case OB_DTYPE_FLOAT16:
      reduce_float16(out, (const uint16_t* const*)parts, ranks, count, reduction);
      return true;
    default:
      break;
  }
  if (averages) return false;
  switch (dtype) {
    CASE(OB_DTYPE_UINT8, uint8_t)
    CASE(OB_DTYPE_INT8, int8_t)
    CASE(OB_DTYPE_UINT16, uint16_t)
    CASE(OB_DTYPE_INT16, int16_t)
    CASE(OB_DTYPE_UINT32, uint32_t)
    CASE(OB_DTYPE_INT32, int32_t)
    CASE(OB_DTYPE_UINT64, uint64_t)
    CASE(OB_DTYPE_INT64, int64_t)
    default:
      return false;
  }
#undef CASE
}
