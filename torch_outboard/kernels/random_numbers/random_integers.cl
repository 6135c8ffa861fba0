// Integers from `from` on, of a range: (draw * range) >> bits.

#ifdef DIGITS
#define RANGE ((1ul << DIGITS) + FLOATING)
#define FROM 0
#elif HAS_FROM
#define RANGE ((ulong)to - (ulong)from)
#define FROM (ulong)from
#else
#define RANGE ((ulong)to)
#define FROM 0
#endif

#if SMALL
#define USE(i, word) out_store(i, (V)(FROM + (((ulong)word * RANGE) >> 32)));
#define FOR_ELEMENTS FOR_WORDS
#else
#define USE(i, draw) out_store(i, (V)(FROM + mul_hi(draw, RANGE)));
#define FOR_ELEMENTS FOR_DRAWS
#endif

__kernel void random_integers(OB_PARAMETERS) {
  OB_BEGIN
  FOR_ELEMENTS(count, USE)
}
