// Philox4x32-10, and the words of an element as in csrc/random/distributions.h: word i % 4 of block i / 4, or of 64 bits half i % 2 of block i / 2.

// All rounds on the counter in x, y, z and w, of type U: one block or a vector of them.
#define PHILOX_ROUNDS(U)                                                             \
  uint key_low = (uint)seed, key_high = (uint)(seed >> 32);                          \
  for (int round = 0; round < 10; ++round) {                                         \
    const U high_x = mul_hi((U)(0xD2511F53u), x), low_x = 0xD2511F53u * x;           \
    const U high_z = mul_hi((U)(0xCD9E8D57u), z), low_z = 0xCD9E8D57u * z;           \
    x = high_z ^ y ^ key_low;                                                        \
    y = low_z;                                                                       \
    z = high_x ^ w ^ key_high;                                                       \
    w = low_x;                                                                       \
    key_low += 0x9E3779B9u;                                                          \
    key_high += 0xBB67AE85u;                                                         \
  }

static inline uint4 philox(const ulong block, const ulong seed, const ulong offset) {
  uint x = (uint)block, y = (uint)(block >> 32), z = (uint)offset, w = (uint)(offset >> 32);
  PHILOX_ROUNDS(uint)
  return (uint4)(x, y, z, w);
}

// FOR_WORDS(count, USE): USE(i, word) for the elements of a work-item. FOR_DRAWS(count, USE):
// USE(i, draw) with draws of 64 bits.
#if OB_LOCAL == 1
// CPU: a work-item computes eight blocks at a time, as vectors. The loops are simple, so that the
// compiler vectorizes them, too.
#define PHILOX_BLOCKS 8
static inline void philox_blocks(const ulong first, const ulong seed, const ulong offset,
                                 uint *const words) {
  uint8 x = (uint8)(0, 1, 2, 3, 4, 5, 6, 7) + (uint)first;  // no carry: first is a multiple of 8
  uint8 y = (uint)(first >> 32), z = (uint)offset, w = (uint)(offset >> 32);
  PHILOX_ROUNDS(uint8)
  vstore8((uint8)(x.s0, y.s0, z.s0, w.s0, x.s1, y.s1, z.s1, w.s1), 0, words);
  vstore8((uint8)(x.s2, y.s2, z.s2, w.s2, x.s3, y.s3, z.s3, w.s3), 1, words);
  vstore8((uint8)(x.s4, y.s4, z.s4, w.s4, x.s5, y.s5, z.s5, w.s5), 2, words);
  vstore8((uint8)(x.s6, y.s6, z.s6, w.s6, x.s7, y.s7, z.s7, w.s7), 3, words);
}

// A work-item computes elements [i0, i0 + some) of `count`, `part` of a block each, from `words`.
#define PHILOX_ITEM(count, part)                                              \
  OB_ITEM(item)                                                               \
  uint words[4 * PHILOX_BLOCKS];                                              \
  philox_blocks((ulong)item * PHILOX_BLOCKS, ob_seed, ob_offset, words);      \
  const ob_index i0 = item * ((part) * PHILOX_BLOCKS);                        \
  const int some = (int)min((ob_index)((part) * PHILOX_BLOCKS), (ob_index)(count) - i0);
#define DRAW(k) (words[2 * (k)] | ((ulong)words[2 * (k) + 1] << 32))

#define FOR_WORDS(count, USE) \
  PHILOX_ITEM(count, 4)       \
  for (int k = 0; k < some; ++k) USE((i0 + k), words[k])
#define FOR_DRAWS(count, USE) \
  PHILOX_ITEM(count, 2)       \
  for (int k = 0; k < some; ++k) USE((i0 + k), DRAW(k))
#else
// GPU: a work-item computes one block. The work-items of a group exchange their words, so that
// adjacent ones access adjacent memory: an item's elements are a group apart.
#define PHILOX_LANE ((int)get_local_id(0))
// A work-group computes elements [i0, i0 + some) of `count`, `part` of each block. Element k of a
// work-item is PHILOX_AT(k) of them.
#define PHILOX_GROUP(count, part)                                               \
  const ob_index i0 = (ob_index)get_group_id(0) * ((part) * OB_LOCAL);          \
  const int some = (int)min((ob_index)((part) * OB_LOCAL), (ob_index)(count) - i0);
#define PHILOX_AT(k) (PHILOX_LANE + (k) * OB_LOCAL)
#define PHILOX_OWN philox((ulong)get_global_id(0), ob_seed, ob_offset)
#define PHILOX_WORDS(count, part)         \
  __local uint ob_words[4 * OB_LOCAL];    \
  PHILOX_GROUP(count, part)               \
  vstore4(PHILOX_OWN, PHILOX_LANE, ob_words); \
  barrier(CLK_LOCAL_MEM_FENCE);
#define WORD(at) ob_words[at]
#define DRAW(at) (ob_words[2 * (at)] | ((ulong)ob_words[2 * (at) + 1] << 32))

#define FOR_WORDS(count, USE)                                                   \
  PHILOX_WORDS(count, 4)                                                        \
  for (int ob_at = PHILOX_LANE; ob_at < some; ob_at += OB_LOCAL) USE((i0 + ob_at), WORD(ob_at))
#define FOR_DRAWS(count, USE)                                                   \
  PHILOX_WORDS(count, 2)                                                        \
  for (int ob_at = PHILOX_LANE; ob_at < some; ob_at += OB_LOCAL) USE((i0 + ob_at), DRAW(ob_at))
#endif
