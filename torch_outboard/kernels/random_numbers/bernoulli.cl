// Bernoulli draws, and dropout. Needs philox.cl before it.

#if HAS_mask

// Dropout: elements kept with a probability and scaled, and a mask of the kept ones.

#define USE_OF(i, word, x)                                                                   \
  {                                                                                          \
    const bool kept = (ulong)word < (((ulong)threshold_high << 16) | (ulong)threshold_low);  \
    out_store(i, x * (kept ? scale : 0));                                                    \
    mask_store(i, kept ? 1 : 0);                                                             \
  }

__kernel void dropout(OB_PARAMETERS) {
  OB_BEGIN
#if OB_LOCAL == 1
#define USE(i, word) USE_OF(i, word, input_load(i))
  FOR_WORDS(count, USE)
#else
  // All elements are loaded before the first store, so that loads do not wait for stores.
  PHILOX_WORDS(count, 4)
  V x[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) x[k] = PHILOX_AT(k) < some ? input_load(i0 + PHILOX_AT(k)) : 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (PHILOX_AT(k) < some) USE_OF((i0 + PHILOX_AT(k)), WORD(PHILOX_AT(k)), x[k])
  }
#endif
}

#else

// 1 with a probability, else 0: 1 if a draw is less than the probability times 2^32.

#if HAS_p
// Probabilities: one per element, or a single one.
#define PROBABILITY(i) p_load(single ? 0 : (i))
#define THRESHOLD(i) (ulong)ceil(fmax(PROBABILITY(i), (p_value)0) * 4294967296.0f)
#define CHECK(i) if (!(PROBABILITY(i) >= 0 && PROBABILITY(i) <= 1)) { OB_REPORT }
#else
#define CHECK(i)
#define THRESHOLD(i) (((ulong)threshold_high << 16) | (ulong)threshold_low)
#endif
#define USE(i, word) { CHECK(i) out_store(i, (V)((ulong)word < THRESHOLD(i))); }

__kernel void bernoulli(OB_PARAMETERS) {
  OB_BEGIN
  FOR_WORDS(count, USE)
}

#endif
