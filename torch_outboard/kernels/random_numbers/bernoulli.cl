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
