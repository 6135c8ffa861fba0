// Flex attention: scores are modified by functions of their indices, in the blocks of keys that a
// mask leaves to each block of queries: `indices`, where VISIBLE masks keys, and `full_indices`,
// where all keys count. Softmax is a running maximum and sum.
//
// SCORE(to, s, b, h, m, n), VISIBLE(to, b, h, m, n) and SCORE_GRADIENT(to, s, b, h, m, n, g)
// precede this source.

#define LN2 ((V)0.693147180559945309417)

// Index of the lists of block `block` of head h; masks may have one batch or head for all.
#define LIST(counts, b, h, block) \
  ((((b) % mask_batches) * mask_heads + (h) % mask_heads) * (counts) + (block))

// Lists of blocks: partial blocks, which need the mask, then full ones.
#if HAS_full_counts
#define LISTS 2
#define COUNT(kind, at) ((kind) == 0 ? counts_load(at) : full_counts_load(at))
#define BLOCK(kind, at) ((kind) == 0 ? indices_load(at) : full_indices_load(at))
#else
#define LISTS 1
#define COUNT(kind, at) (counts_load(at))
#define BLOCK(kind, at) (indices_load(at))
#endif

// The score of a query and a key after `mask_mod` and `score_mod`.
#define FINISH_SCORE(to, s, kind, b, h, m, n)       \
  {                                                 \
    const V ob_s = (s);                             \
    int ob_seen = 1;                                \
    if ((kind) == 0) VISIBLE(ob_seen, b, h, m, n)   \
    if (ob_seen) SCORE(to, ob_s, b, h, m, n)        \
    else to = NEVER;                                \
  }

#define PLACE_OF_ROW(x, b, h, i)                                             \
  ((b) * x##_layout.stride[0] + (h) * x##_layout.stride[1] + (i) * x##_layout.stride[2])

// Rows of a GPU work-group: up to ROWS of a block of `block` of all `rows`. Blocks need not be
// multiples of ROWS.
#define BLOCK_OF_GROUP(group, block, rows, all_heads)                                       \
  const ob_index per_block = (min(block, rows) + ROWS - 1) / ROWS;                          \
  const ob_index per_head = ((rows) + (block) - 1) / (block) * per_block;                   \
  const ob_index h = (group) / per_head % (all_heads);                                      \
  const ob_index b = (group) / per_head / (all_heads);                                      \
  const ob_index begin_of_block = (group) % per_head / per_block * (block);                 \
  const ob_index start = begin_of_block + (group) % per_block * ROWS;                       \
  const int length = (int)min((ob_index)ROWS, min(begin_of_block + (block), rows) - start); \
  if (length <= 0) continue;
