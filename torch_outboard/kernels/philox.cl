// Philox4x32-10, as in csrc/aten/random/philox.h, and which words an element uses, as in
// distributions.h there: word i % 4 of block i / 4, or of 64 bits half i % 2 of block i / 2.

static inline uint4 philox(const ulong block, const ulong seed, const ulong offset) {
  uint x = (uint)block, y = (uint)(block >> 32), z = (uint)offset, w = (uint)(offset >> 32);
  uint key_low = (uint)seed, key_high = (uint)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint high_x = mul_hi(0xD2511F53u, x), low_x = 0xD2511F53u * x;
    const uint high_z = mul_hi(0xCD9E8D57u, z), low_z = 0xCD9E8D57u * z;
    x = high_z ^ y ^ key_low;
    y = low_z;
    z = high_x ^ w ^ key_high;
    w = low_x;
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return (uint4)(x, y, z, w);
}

// A work item takes a block: FOR_WORDS(count, USE) puts USE(i, word) for its elements, and
// FOR_DRAWS(count, USE) USE(i, draw) with draws of 64 bits.
#define FOR_WORDS(count, USE)                                    \
  OB_ITEM(block)                                                 \
  const uint4 words = philox((ulong)block, ob_seed, ob_offset);  \
  const ob_index i0 = 4 * block;                                 \
  USE(i0, words.x)                                               \
  if (i0 + 1 < count) USE((i0 + 1), words.y)                     \
  if (i0 + 2 < count) USE((i0 + 2), words.z)                     \
  if (i0 + 3 < count) USE((i0 + 3), words.w)
#define FOR_DRAWS(count, USE)                                    \
  OB_ITEM(block)                                                 \
  const uint4 words = philox((ulong)block, ob_seed, ob_offset);  \
  const ob_index i0 = 2 * block;                                 \
  USE(i0, (words.x | ((ulong)words.y << 32)))                    \
  if (i0 + 1 < count) USE((i0 + 1), (words.z | ((ulong)words.w << 32)))
