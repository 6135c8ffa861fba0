// Scaled dot-product attention in blocks of queries, without a matrix of all scores, and its
// gradients. Softmax is online: a running maximum and sum, which rescale earlier partial sums.
// Gradients recompute probabilities by block from the scores and `logsumexp`: one kernel loops over
// queries for each block of keys, one over keys for each block of queries, so no sum spans several
// work-groups. With `whole_heads`, on a CPU with a head of keys for each core, the first kernel
// does both and computes each score once. Needs attention_tiles.cl before it.
//
// FLEX: flex_attention.cl, before it, has other definitions of scores, and of the blocks that a
// mask leaves.

#define OFFSET_OF_ROW(x, b, h, i)                                            \
  ((b) * x##_layout.stride[0] + (h) * x##_layout.stride[1] + (i) * x##_layout.stride[2])

// The work-group's block of `tile` of all `rows`: `length` rows of head h from `start` on.
#define TILE_OF_GROUP(tile, reversed, rows, all_heads)                                         \
  const ob_index blocks = ((rows) + (tile) - 1) / (tile);                                      \
  const ob_index h = group / blocks % (all_heads), b = group / blocks / (all_heads);           \
  const ob_index start = ((reversed) ? blocks - 1 - group % blocks : group % blocks) * (tile); \
  const int length = (int)min((ob_index)(tile), (rows) - start);

#if OB_LOCAL == 1
#define QUERIES_OF_GROUP TILE_OF_GROUP(ROWS, 0, queries, heads)
#define KEYS_OF_GROUP TILE_OF_GROUP(whole_heads ? keys : KEYS, 0, keys, key_heads)
#elif !defined(FLEX)
// Longest rows first: blocks with the most keys.
#define QUERIES_OF_GROUP TILE_OF_GROUP(ROWS, CAUSAL, queries, heads)
#define KEYS_OF_GROUP TILE_OF_GROUP(ROWS, 0, keys, key_heads)
#endif

#ifndef FLEX

#define DECLARE_FACTOR const V factor = FACTOR;

// Loops over tiles of the keys that queries see, and of the queries that see keys. Up to LEFT rows
// from `from` on are in a tile.
#define FOR_KEYS                                                                           \
  for (ob_index first = 0, end = CAUSAL ? min(keys, row + height) : keys; first < end;     \
       first += KEYS)
#define FOR_QUERIES(visible, step) \
  for (ob_index row = CAUSAL ? (visible) : 0, end = queries; row < end; row += (step))
#define LEFT(tile, from) (int)min((ob_index)(tile), end - (from))

// Zero for a row without visible keys, as on CPU.
#define STORE_SOFTMAX(b, h, i, largest, total)            \
  logsumexp_store(((b) * queries + (i)) * heads + (h),    \
                  (total) == (V)0 ? (V)0 : (largest) + log(total));
#define LOGSUMEXP(b, h, i) ((V)logsumexp_load(OFFSET_OF_ROW(logsumexp, b, h, i)))

#if OB_LOCAL == 1

// Scales scores and adds the masks of keys from `key` on; masked scores are NEVER.
#define FINISH_SCORES(scores, b, h, row, height, key, width)                           \
  for (int r = 0; r < ROWS; ++r) {                                                     \
    V *s = (scores) + r * KEYS;                                                        \
    for (int j = 0; j < KEYS; j += W) OB_VSTORE(OB_VLOAD(s + j) * (T)(factor), s + j); \
    if (HAS_attn_mask && r < (height)) {                                               \
      for (int j = 0; j < (width); ++j) s[j] += MASK(b, h, (row) + r, (key) + j);      \
    }                                                                                  \
    const ob_index visible = CAUSAL ? min((ob_index)(width), (row) + r + 1 - (key))    \
                                    : (ob_index)(width);                               \
    for (int j = max(visible, (ob_index)0); j < KEYS; ++j) s[j] = NEVER;               \
  }

// Converts scores and the gradients of probabilities to probabilities and the scores' gradients.
#define DIFFERENTIATE_TILE(b, h, row, height, first, width)                     \
  FINISH_SCORES(scores, b, h, row, height, first, width)                        \
  for (int r = 0; r < ROWS; ++r) {                                              \
    V *p = scores + r * KEYS, *g = gradients + r * KEYS;                        \
    const V known = r < (height) ? LOGSUMEXP(b, h, (row) + r) : NEVER;          \
    if (known == NEVER) {                                                       \
      clear(p, KEYS);                                                           \
      clear(g, KEYS);                                                           \
      continue;                                                                 \
    }                                                                           \
    const T minus = (T)(delta_load(((b) * heads + (h)) * queries + (row) + r)); \
    for (int j = 0; j < KEYS; j += W) {                                         \
      const T each = ob_exp(OB_VLOAD(p + j) - (T)(known));                      \
      OB_VSTORE(each, p + j);                                                   \
      OB_VSTORE(each * (OB_VLOAD(g + j) - minus) * (T)(factor), g + j);         \
    }                                                                           \
  }

#else

#define FINISH_SCORES(s, b, h, row, height, first, width)                            \
  FOR_SCORES(r, j) {                                                                 \
    const ob_index i = row + SUM_ROW(r), k = first + SCORE_COLUMN(j);                \
    const int counts = SCORE_COLUMN(j) < width && (!CAUSAL || k <= i);               \
    V score = s[r][j] * factor;                                                      \
    if (HAS_attn_mask && counts && SUM_ROW(r) < height) score += MASK(b, h, i, k);   \
    s[r][j] = counts ? score : NEVER;                                                \
  }

// Converts the dot product of a query and a key, and the gradient of their probability, to the
// probability and the gradient of the product. `known` is NEVER for missing queries.
#define DIFFERENTIATE(p, g, b, h, i, j, there, known, minus)                          \
  if (!(there) || (known) == NEVER || (CAUSAL && (j) > (i))) {                        \
    p = g = 0;                                                                        \
  } else {                                                                            \
    p = exp((p) * factor + MASK(b, h, i, j) - (known));                               \
    g = (p) * ((g) - (minus)) * factor;                                               \
  }

#endif
#endif

// Stores rows of sums from offset `to` on, times `share`, which may depend on the row r.
#if OB_LOCAL == 1
#define STORE_ROWS(tensor, to, rows, sums)                                             \
  for (int r = 0; r < (rows); ++r) {                                                   \
    STORE_ROW(tensor, (to) + r * tensor##_layout.stride[2], tensor##_layout.stride[3], \
              (sums) + r * PADDED)                                                     \
  }
// Stores a row whose elements are `step` apart.
#define STORE_ROW(tensor, to, step, values)                               \
  {                                                                       \
    int e = 0;                                                            \
    for (; (step) == 1 && e + W <= HEAD; e += W) {                        \
      tensor##_store_vector((to) + e, OB_VLOAD((values) + e));            \
    }                                                                     \
    for (; e < HEAD; ++e) tensor##_store((to) + e * (step), (values)[e]); \
  }
#else
#define STORE_ROWS(tensor, to, rows, sums, share)                      \
  FOR_SUMS(n, r) {                                                     \
    UNROLLED for (int k = 0; k < X_WIDTH; ++k) {                       \
      if (WORKS && SUM_ROW(r) < (rows) && SUM_COLUMN(n, k) < HEAD) {   \
        tensor##_store((to) + SUM_ROW(r) * tensor##_layout.stride[2] + \
                       SUM_COLUMN(n, k) * tensor##_layout.stride[3],   \
                       SUM_OF(sums, n, r, k) * (share));               \
      }                                                                \
    }                                                                  \
  }
#endif

#if !HAS_grad_out

#if OB_LOCAL == 1

__kernel void attend(OB_PARAMETERS) {
  OB_BEGIN
  DECLARE_FACTOR
  OB_FOR_GROUPS(group) {
    QUERIES_OF_GROUP
    const ob_index row = start;
    const int height = length;
    V q[ROWS * PADDED], sums[ROWS * PADDED], values[KEYS * PADDED], turned[HEAD * KEYS];
    V scores[ROWS * KEYS], largest[ROWS], total[ROWS];
    READ_TILE(query, OFFSET_OF_ROW(query, b, h, row), query_layout.stride[2], height, ROWS, q)
    clear(sums, ROWS * PADDED);
    for (int r = 0; r < ROWS; ++r) {
      largest[r] = NEVER;
      total[r] = 0;
    }
    FOR_KEYS {
      const int width = LEFT(KEYS, first);
      READ_TURNED_TILE(key, OFFSET_OF_ROW(key, b, h / shared, first), key_layout.stride[2], width,
                       KEYS, turned)
      READ_TILE(value, OFFSET_OF_ROW(value, b, h / shared, first), value_layout.stride[2], width,
                KEYS, values)
      clear(scores, ROWS * KEYS);
      add_product(q, PADDED, 1, turned, HEAD, KEYS, scores, KEYS, ROWS, KEYS);
      FINISH_SCORES(scores, b, h, row, height, first, width)
      for (int r = 0; r < ROWS; ++r) {
        soften(scores + r * KEYS, largest + r, total + r, sums + r * PADDED);
      }
      add_product(scores, KEYS, 1, values, width, PADDED, sums, PADDED, ROWS, PADDED);
    }
    for (int r = 0; r < height; ++r) {
      const V share = total[r] == (V)0 ? (V)0 : (V)1 / total[r];
      const ob_index to = OFFSET_OF_ROW(out, b, h, row + r), step = out_layout.stride[3];
      int e = 0;
      for (; step == 1 && e + W <= HEAD; e += W) {
        out_store_vector(to + e, OB_VLOAD(sums + r * PADDED + e) * (T)(share));
      }
      for (; e < HEAD; ++e) out_store(to + e * step, sums[r * PADDED + e] * share);
      STORE_SOFTMAX(b, h, row + r, largest[r], total[r])
    }
  }
}

#else

__kernel void attend(OB_PARAMETERS) {
  OB_BEGIN
  OB_MEMORY
  OB_LOCATION
  DECLARE_FACTOR
  OB_FOR_GROUPS(group) {
    QUERIES_OF_GROUP
    const ob_index row = start;
    const int height = length;
    const ob_index from = OFFSET_OF_ROW(query, b, h, row);
    const ob_index from_key = OFFSET_OF_ROW(key, b, h / shared, 0);
    const ob_index from_value = OFFSET_OF_ROW(value, b, h / shared, 0);
    V s[TALL][NEAR], largest[TALL], total[TALL];
    SUMS(sums);
    FOR_SUMS(n, r) sums[n][r] = (X)(0);
    UNROLLED for (int r = 0; r < TALL; ++r) {
      largest[r] = NEVER;
      total[r] = 0;
    }
    FOR_KEYS {
      const int width = LEFT(KEYS, first);
      MULTIPLY_ROWS(s, query, from, query_layout.stride[2], height, key,
                    from_key + first * key_layout.stride[2], key_layout.stride[2], width)
      FINISH_SCORES(s, b, h, row, height, first, width)
      SOFTEN(s, largest, total, sums)
      ADD_SCORES(sums, s, value, from_value + first * value_layout.stride[2],
                 value_layout.stride[2], width)
    }
    COMBINE_ROWS(total, BOTH_ADDED)
    const ob_index to = OFFSET_OF_ROW(out, b, h, row);
    STORE_ROWS(out, to, height, sums, total[r] == (V)0 ? (V)0 : (V)1 / total[r])
    UNROLLED for (int r = 0; r < TALL; ++r) {
      if (WORKS && across == 0 && SUM_ROW(r) < height) {
        STORE_SOFTMAX(b, h, row + SUM_ROW(r), largest[r], total[r])
      }
    }
  }
}

#endif

#elif OB_LOCAL == 1

#ifdef FLEX
#define ADD_TO_QUERIES
#else
// Adds a block of keys to the gradients of a block of queries; `query_sums` has the sums of the
// blocks before.
#define ADD_TO_QUERIES                                                                      \
  if (whole_heads) {                                                                        \
    V straight[KEYS * PADDED], grad_q[ROWS * PADDED];                                       \
    const ob_index sums = ((b * heads + h) * queries + row) * HEAD;                         \
    READ_TILE(key, from_key, key_layout.stride[2], width, KEYS, straight)                   \
    READ_TILE(query_sums, sums, HEAD, first == 0 ? 0 : height, ROWS, grad_q)                \
    add_product(gradients, KEYS, 1, straight, width, PADDED, grad_q, PADDED, ROWS, PADDED); \
    if (first + KEYS >= (CAUSAL ? min(keys, row + height) : keys)) {                        \
      STORE_ROWS(grad_query, OFFSET_OF_ROW(grad_query, b, h, row), height, grad_q)          \
    } else {                                                                                \
      for (int r = 0; r < height; ++r) {                                                    \
        STORE_ROW(query_sums, sums + r * HEAD, 1, grad_q + r * PADDED)                      \
      }                                                                                     \
    }                                                                                       \
  }
#endif

__kernel void differentiate_keys(OB_PARAMETERS) {
  OB_BEGIN
  DECLARE_FACTOR
  const ob_index key_heads = heads / shared;
  OB_FOR_GROUPS(group) {
    KEYS_OF_GROUP
    const ob_index key_head = h;
    V turned_key[HEAD * KEYS], turned_value[HEAD * KEYS];
    V grad_k[KEYS * PADDED], grad_v[KEYS * PADDED], q[ROWS * PADDED], go[ROWS * PADDED];
    V scores[ROWS * KEYS], gradients[ROWS * KEYS];
    for (ob_index first = start; first < start + length; first += KEYS) {
      const int width = (int)min((ob_index)KEYS, start + length - first);
      const ob_index from_key = OFFSET_OF_ROW(key, b, key_head, first);
      READ_TURNED_TILE(key, from_key, key_layout.stride[2], width, KEYS, turned_key)
      READ_TURNED_TILE(value, OFFSET_OF_ROW(value, b, key_head, first), value_layout.stride[2],
                       width, KEYS, turned_value)
      clear(grad_k, KEYS * PADDED);
      clear(grad_v, KEYS * PADDED);
      for (ob_index h = key_head * shared; h < (key_head + 1) * shared; ++h) {
        FOR_QUERIES(first / ROWS * ROWS, ROWS) {
          const int height = LEFT(ROWS, row);
          READ_TILE(query, OFFSET_OF_ROW(query, b, h, row), query_layout.stride[2], height, ROWS, q)
          READ_TILE(grad_out, ((b * heads + h) * queries + row) * HEAD, HEAD, height, ROWS, go)
          clear(scores, ROWS * KEYS);
          clear(gradients, ROWS * KEYS);
          add_product(q, PADDED, 1, turned_key, HEAD, KEYS, scores, KEYS, ROWS, KEYS);
          add_product(go, PADDED, 1, turned_value, HEAD, KEYS, gradients, KEYS, ROWS, KEYS);
          DIFFERENTIATE_TILE(b, h, row, height, first, width)
          add_product(scores, 1, KEYS, go, height, PADDED, grad_v, PADDED, KEYS, PADDED);
          add_product(gradients, 1, KEYS, q, height, PADDED, grad_k, PADDED, KEYS, PADDED);
          ADD_TO_QUERIES
        }
      }
      STORE_ROWS(grad_key, OFFSET_OF_ROW(grad_key, b, key_head, first), width, grad_k)
      STORE_ROWS(grad_value, OFFSET_OF_ROW(grad_value, b, key_head, first), width, grad_v)
    }
  }
}

__kernel void differentiate_queries(OB_PARAMETERS) {
  OB_BEGIN
  DECLARE_FACTOR
  OB_FOR_GROUPS(group) {
    QUERIES_OF_GROUP
    const ob_index row = start;
    const int height = length;
    V turned[HEAD * KEYS], straight[KEYS * PADDED];
    V grad_q[ROWS * PADDED], q[ROWS * PADDED], go[ROWS * PADDED];
    V scores[ROWS * KEYS], gradients[ROWS * KEYS];
    READ_TILE(query, OFFSET_OF_ROW(query, b, h, row), query_layout.stride[2], height, ROWS, q)
    READ_TILE(grad_out, ((b * heads + h) * queries + row) * HEAD, HEAD, height, ROWS, go)
    clear(grad_q, ROWS * PADDED);
    FOR_KEYS {
      const int width = LEFT(KEYS, first);
      const ob_index from_key = OFFSET_OF_ROW(key, b, h / shared, first);
      clear(scores, ROWS * KEYS);
      clear(gradients, ROWS * KEYS);
      READ_TURNED_TILE(key, from_key, key_layout.stride[2], width, KEYS, turned)
      add_product(q, PADDED, 1, turned, HEAD, KEYS, scores, KEYS, ROWS, KEYS);
      READ_TURNED_TILE(value, OFFSET_OF_ROW(value, b, h / shared, first), value_layout.stride[2],
                       width, KEYS, turned)
      add_product(go, PADDED, 1, turned, HEAD, KEYS, gradients, KEYS, ROWS, KEYS);
      DIFFERENTIATE_TILE(b, h, row, height, first, width)
      READ_TILE(key, from_key, key_layout.stride[2], width, KEYS, straight)
      add_product(gradients, KEYS, 1, straight, width, PADDED, grad_q, PADDED, ROWS, PADDED);
    }
    STORE_ROWS(grad_query, OFFSET_OF_ROW(grad_query, b, h, row), height, grad_q)
  }
}

#else

__kernel void differentiate_keys(OB_PARAMETERS) {
  OB_BEGIN
  OB_MEMORY
  OB_LOCATION
  DECLARE_FACTOR
  const ob_index key_heads = heads / shared;
  OB_FOR_GROUPS(group) {
    // Here rows of tiles are keys, and columns queries.
    KEYS_OF_GROUP
    const ob_index first = start, key_head = h;
    const int width = length;
    const ob_index from_key = OFFSET_OF_ROW(key, b, key_head, first);
    const ob_index from_value = OFFSET_OF_ROW(value, b, key_head, first);
    V p[TALL][NEAR], g[TALL][NEAR];
    SUMS(grad_k);
    SUMS(grad_v);
    FOR_SUMS(n, r) grad_k[n][r] = grad_v[n][r] = (X)(0);
    for (ob_index h = key_head * shared; h < (key_head + 1) * shared; ++h) {
      FOR_QUERIES(first, KEYS) {
        const int height = LEFT(KEYS, row);
        const ob_index from = OFFSET_OF_ROW(query, b, h, row);
        const ob_index known_rows = (b * heads + h) * queries + row;
        MULTIPLY_ROWS(p, key, from_key, key_layout.stride[2], width, query, from,
                      query_layout.stride[2], height)
        MULTIPLY_ROWS(g, value, from_value, value_layout.stride[2], width, grad_out,
                      known_rows * HEAD, HEAD, height)
        UNROLLED for (int j = 0; j < NEAR; ++j) {
          const int i = min(SCORE_COLUMN(j), height - 1);
          const V known = SCORE_COLUMN(j) < height ? LOGSUMEXP(b, h, row + i) : NEVER;
          const V minus = delta_load(known_rows + i);
          UNROLLED for (int r = 0; r < TALL; ++r) {
            DIFFERENTIATE(p[r][j], g[r][j], b, h, row + i, first + SUM_ROW(r),
                          SUM_ROW(r) < width, known, minus)
          }
        }
        ADD_SCORES(grad_v, p, grad_out, known_rows * HEAD, HEAD, height)
        ADD_SCORES(grad_k, g, query, from, query_layout.stride[2], height)
      }
    }
    STORE_ROWS(grad_key, OFFSET_OF_ROW(grad_key, b, key_head, first), width, grad_k, 1)
    STORE_ROWS(grad_value, OFFSET_OF_ROW(grad_value, b, key_head, first), width, grad_v, 1)
  }
}

__kernel void differentiate_queries(OB_PARAMETERS) {
  OB_BEGIN
  OB_MEMORY
  OB_LOCATION
  DECLARE_FACTOR
  OB_FOR_GROUPS(group) {
    QUERIES_OF_GROUP
    const ob_index row = start;
    const int height = length;
    const ob_index from = OFFSET_OF_ROW(query, b, h, row);
    const ob_index from_key = OFFSET_OF_ROW(key, b, h / shared, 0);
    const ob_index from_value = OFFSET_OF_ROW(value, b, h / shared, 0);
    const ob_index known_rows = (b * heads + h) * queries + row;
    V p[TALL][NEAR], g[TALL][NEAR], known[TALL], minus[TALL];
    SUMS(grad_q);
    FOR_SUMS(n, r) grad_q[n][r] = (X)(0);
    UNROLLED for (int r = 0; r < TALL; ++r) {
      const int i = min(SUM_ROW(r), height - 1);
      known[r] = SUM_ROW(r) < height ? LOGSUMEXP(b, h, row + i) : NEVER;
      minus[r] = delta_load(known_rows + i);
    }
    FOR_KEYS {
      const int width = LEFT(KEYS, first);
      MULTIPLY_ROWS(p, query, from, query_layout.stride[2], height, key,
                    from_key + first * key_layout.stride[2], key_layout.stride[2], width)
      MULTIPLY_ROWS(g, grad_out, known_rows * HEAD, HEAD, height, value,
                    from_value + first * value_layout.stride[2], value_layout.stride[2], width)
      FOR_SCORES(r, j) {
        DIFFERENTIATE(p[r][j], g[r][j], b, h, row + SUM_ROW(r), first + SCORE_COLUMN(j),
                      SCORE_COLUMN(j) < width, known[r], minus[r])
      }
      ADD_SCORES(grad_q, g, key, from_key + first * key_layout.stride[2], key_layout.stride[2],
                 width)
    }
    STORE_ROWS(grad_query, OFFSET_OF_ROW(grad_query, b, h, row), height, grad_q, 1)
  }
}

#endif
