// Flex attention: scores are modified by functions of their indices, in the blocks of keys that a
// mask leaves to each block of queries: `indices`, where VISIBLE masks keys, and `full_indices`,
// where all keys count. Definitions for attention.cl, which has the kernels.
//
// SCORE(to, s, b, h, m, n), VISIBLE(to, b, h, m, n) and SCORE_GRADIENT(to, s, b, h, m, n, g)
// precede this source.

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

// COUNT and BLOCK for the backward: the blocks of queries that a mask leaves to a block of keys.
#if HAS_full_q_counts
#define COUNT_OF_KEYS(kind, at) ((kind) == 0 ? q_counts_load(at) : full_q_counts_load(at))
#define BLOCK_OF_KEYS(kind, at) ((kind) == 0 ? q_indices_load(at) : full_q_indices_load(at))
#else
#define COUNT_OF_KEYS(kind, at) (q_counts_load(at))
#define BLOCK_OF_KEYS(kind, at) (q_indices_load(at))
#endif

// Loops over tiles of `step` rows of the blocks in the lists of a block.
#define FOR_BLOCKS(from, step, count_of, block_of, list, blocks, block, rows)                     \
  for (int kind = 0; kind < LISTS; ++kind)                                                        \
    for (ob_index k = 0, count = min((ob_index)count_of(kind, list), blocks); k < count; ++k)     \
      for (long from = (long)block_of(kind, (list) * (blocks) + k) * (block),                     \
                end = min(from + (block), (long)(rows));                                          \
           from >= 0 && from < end; from += (step))
#define FOR_KEYS                                                                          \
  FOR_BLOCKS(first, KEYS, COUNT, BLOCK, LIST(query_blocks, b, h, row / query_block),      \
             key_blocks, key_block, keys)
#define FOR_QUERIES(visible, step)                                                                \
  FOR_BLOCKS(row, step, COUNT_OF_KEYS, BLOCK_OF_KEYS, LIST(key_lists, b, h, first / key_block),   \
             query_lists, query_block, queries)
#define LEFT(tile, from) (int)min((long)(tile), end - (from))

#define FLEX
#define whole_heads 0
#define DECLARE_FACTOR
#define STORE_SOFTMAX(b, h, i, largest, total)                                                   \
  {                                                                                              \
    const ob_index location = ((b) * heads + (h)) * queries + (i);                               \
    logsumexp_store(location, (total) == (V)0 ? NEVER : ((largest) + log(total)) / LN2);         \
    max_scores_store(location, (largest) / LN2);                                                 \
  }
#define LOGSUMEXP(b, h, i) ((V)logsumexp_load(((b) * heads + (h)) * queries + (i)) * LN2)

// Converts the dot product of a query and a key, and the gradient of their probability, to the
// probability and the gradient of the product.
#define DIFFERENTIATE_SCORE(p, g, kind, b, h, m, n, known, minus) \
  {                                                               \
    const V ob_raw = (p) * scale_value;                           \
    V ob_score;                                                   \
    FINISH_SCORE(ob_score, ob_raw, kind, b, h, m, n)              \
    if (ob_score == NEVER) {                                      \
      p = 0;                                                      \
      g = 0;                                                      \
    } else {                                                      \
      p = exp(ob_score - (known));                                \
      const V ob_upper = (p) * ((g) - (minus));                   \
      V ob_lower;                                                 \
      SCORE_GRADIENT(ob_lower, ob_raw, b, h, m, n, ob_upper)      \
      g = ob_lower * scale_value;                                 \
    }                                                             \
  }

#if OB_LOCAL == 1

#define FINISH_SCORES(scores, b, h, row, height, first, width)                                 \
  for (int r = 0; r < ROWS; ++r) {                                                             \
    V *s = (scores) + r * KEYS;                                                                \
    int j = 0;                                                                                 \
    for (; r < (height) && j < (width); ++j) {                                                 \
      FINISH_SCORE(s[j], s[j] * scale_value, kind, b, h, (row) + r, (first) + j)               \
    }                                                                                          \
    for (; j < KEYS; ++j) s[j] = NEVER;                                                        \
  }
#define DIFFERENTIATE_TILE(b, h, row, height, first, width)                                      \
  for (int r = 0; r < ROWS; ++r) {                                                               \
    V *p = scores + r * KEYS, *g = gradients + r * KEYS;                                         \
    const V known = r < (height) ? LOGSUMEXP(b, h, (row) + r) : NEVER;                           \
    const V minus = r < (height) ? delta_load(((b) * heads + (h)) * queries + (row) + r) : (V)0; \
    int j = 0;                                                                                   \
    for (; known != NEVER && j < (width); ++j) {                                                 \
      DIFFERENTIATE_SCORE(p[j], g[j], kind, b, h, (row) + r, (first) + j, known, minus)          \
    }                                                                                            \
    for (; j < KEYS; ++j) p[j] = g[j] = 0;                                                       \
  }

#else

#define QUERIES_OF_GROUP BLOCK_OF_GROUP(query_block, queries, heads)
#define KEYS_OF_GROUP BLOCK_OF_GROUP(key_block, keys, key_heads)
// Rows of a GPU work-group: up to ROWS of a block of `block` of all `rows`. Blocks need not be
// multiples of ROWS.
#define BLOCK_OF_GROUP(block, rows, all_heads)                                              \
  const ob_index per_block = (min(block, rows) + ROWS - 1) / ROWS;                          \
  const ob_index per_head = ((rows) + (block) - 1) / (block) * per_block;                   \
  const ob_index h = group / per_head % (all_heads);                                        \
  const ob_index b = group / per_head / (all_heads);                                        \
  const ob_index begin_of_block = group % per_head / per_block * (block);                   \
  const ob_index start = begin_of_block + group % per_block * ROWS;                         \
  const int length = (int)min((ob_index)ROWS, min(begin_of_block + (block), rows) - start); \
  if (length <= 0) continue;

#define FINISH_SCORES(s, b, h, row, height, first, width)                                      \
  FOR_SCORES(r, j) {                                                                           \
    if (SUM_ROW(r) < height && SCORE_COLUMN(j) < width) {                                      \
      FINISH_SCORE(s[r][j], s[r][j] * scale_value, kind, b, h, row + SUM_ROW(r),               \
                   first + SCORE_COLUMN(j))                                                    \
    } else {                                                                                   \
      s[r][j] = NEVER;                                                                         \
    }                                                                                          \
  }
#define DIFFERENTIATE(p, g, b, h, i, j, there, known, minus)          \
  if ((there) && (known) != NEVER) {                                  \
    DIFFERENTIATE_SCORE(p, g, kind, b, h, i, j, known, minus)         \
  } else {                                                            \
    p = g = 0;                                                        \
  }

#endif
