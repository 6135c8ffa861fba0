// Random integers, and permutations. Needs philox.cl before it.

#if HAS_permutation

// The numbers below n in the order of their draws, equal draws in their own order: a bitonic sort
// with padding that compares as the largest.

__kernel void randperm_draw(OB_PARAMETERS) {
  OB_BEGIN
#define USE(i, draw)    \
  {                     \
    keys[i] = draw;     \
    locations[i] = i;   \
  }
  FOR_DRAWS(n, USE)
}

__kernel void randperm_sort(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(pair)
  // Step s of merge m, which joins runs of 2^m.
  ob_index s = ob_step, m = 0;
  while (s > m) s -= ++m;
  const ob_index half_size = (ob_index)1 << (m - s);
  const ob_index block = pair / half_size, t = pair - block * half_size;
  const ob_index i = block * 2 * half_size + t;
  // The first step of a merge compares from both ends.
  const ob_index j = s == 0 ? (block + 1) * 2 * half_size - 1 - t : i + half_size;
  if (i >= n || j >= n) return;
  if (keys[j] < keys[i] || (keys[j] == keys[i] && locations[j] < locations[i])) {
    const ulong key = keys[i];
    const int location = locations[i];
    keys[i] = keys[j];
    locations[i] = locations[j];
    keys[j] = key;
    locations[j] = location;
  }
}

__kernel void randperm_store(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  permutation_store(i, locations[i]);
}

#else

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

#endif
