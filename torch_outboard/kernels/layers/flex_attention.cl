// Flex attention: scores are modified by functions of their indices, in the blocks of keys that a
// mask leaves to each block of queries: `indices`, where VISIBLE masks keys, and `full_indices`,
// where all keys count. Softmax is a running maximum and sum.
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

#if !HAS_grad_out

// The forward pass, with the online softmax of attention.cl.

#if OB_LOCAL == 1

__kernel void attend(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index blocks = (queries + ROWS - 1) / ROWS;
  OB_FOR_GROUPS(group) {
    const ob_index row = group % blocks * ROWS;
    const ob_index h = group / blocks % heads;
    const ob_index b = group / blocks / heads;
    const int height = (int)min((ob_index)ROWS, queries - row);
    V q[ROWS * PADDED], sums[ROWS * PADDED], values[KEYS * PADDED], turned[HEAD * KEYS];
    V scores[ROWS * KEYS], largest[ROWS], total[ROWS];
    READ_TILE(query, b * query_layout.stride[0] + h * query_layout.stride[1] +
              row * query_layout.stride[2], query_layout.stride[2], height, ROWS, q)
    clear(sums, ROWS * PADDED);
    for (int r = 0; r < ROWS; ++r) {
      largest[r] = NEVER;
      total[r] = 0;
    }
    const ob_index from_key = b * key_layout.stride[0] + h / shared * key_layout.stride[1];
    const ob_index from_value = b * value_layout.stride[0] + h / shared * value_layout.stride[1];
    const ob_index list = LIST(query_blocks, b, h, row / query_block);
    for (int kind = 0; kind < LISTS; ++kind) {
      const ob_index count = min((ob_index)COUNT(kind, list), key_blocks);
      for (ob_index k = 0; k < count; ++k) {
        const long begin = (long)BLOCK(kind, list * key_blocks + k) * key_block;
        const long end = min(begin + key_block, (long)keys);
        for (long first = begin; first >= 0 && first < end; first += KEYS) {
          const int width = (int)min((long)KEYS, end - first);
          READ_TURNED_TILE(key, from_key + first * key_layout.stride[2], key_layout.stride[2],
                           width, KEYS, turned)
          READ_TILE(value, from_value + first * value_layout.stride[2], value_layout.stride[2],
                    width, KEYS, values)
          clear(scores, ROWS * KEYS);
          add_product(q, PADDED, 1, turned, HEAD, KEYS, scores, KEYS, ROWS, KEYS);
          for (int r = 0; r < ROWS; ++r) {
            V *s = scores + r * KEYS;
            int j = 0;
            for (; r < height && j < width; ++j) {
              FINISH_SCORE(s[j], s[j] * scale_value, kind, b, h, row + r, first + j)
            }
            for (; j < KEYS; ++j) s[j] = NEVER;
            soften(s, largest + r, total + r, sums + r * PADDED);
          }
          add_product(scores, KEYS, 1, values, width, PADDED, sums, PADDED, ROWS, PADDED);
        }
      }
    }
    for (int r = 0; r < height; ++r) {
      const V share = total[r] == (V)0 ? (V)0 : (V)1 / total[r];
      const ob_index to = b * out_layout.stride[0] + h * out_layout.stride[1] +
                          (row + r) * out_layout.stride[2];
      for (int e = 0; e < HEAD; ++e) {
        out_store(to + e * out_layout.stride[3], sums[r * PADDED + e] * share);
      }
      const ob_index place = (b * heads + h) * queries + row + r;
      logsumexp_store(place, total[r] == (V)0 ? NEVER : (largest[r] + log(total[r])) / LN2);
      max_scores_store(place, largest[r] / LN2);
    }
  }
}

#else

__kernel void attend(OB_PARAMETERS) {
  OB_BEGIN
  OB_MEMORY
  OB_PLACE
  OB_FOR_GROUPS(group) {
    BLOCK_OF_GROUP(group, query_block, queries, heads)
    const ob_index row = start;
    const int height = length;
    const ob_index from = PLACE_OF_ROW(query, b, h, row);
    const ob_index from_key = PLACE_OF_ROW(key, b, h / shared, 0);
    const ob_index from_value = PLACE_OF_ROW(value, b, h / shared, 0);
    V s[TALL][NEAR], largest[TALL], total[TALL];
    SUMS(sums);
    FOR_SUMS(n, r) sums[n][r] = (X)(0);
    UNROLLED for (int r = 0; r < TALL; ++r) {
      largest[r] = NEVER;
      total[r] = 0;
    }
    const ob_index list = LIST(query_blocks, b, h, row / query_block);
    for (int kind = 0; kind < LISTS; ++kind) {
      const ob_index count = min((ob_index)COUNT(kind, list), key_blocks);
      for (ob_index k = 0; k < count; ++k) {
        const long begin = (long)BLOCK(kind, list * key_blocks + k) * key_block;
        const long end = min(begin + key_block, (long)keys);
        for (long first = begin; first >= 0 && first < end; first += KEYS) {
          const int width = (int)min((long)KEYS, end - first);
          MULTIPLY_ROWS(s, query, from, query_layout.stride[2], height, key,
                        from_key + first * key_layout.stride[2], key_layout.stride[2], width)
          FOR_SCORES(r, j) {
            if (SUM_ROW(r) < height && SCORE_COLUMN(j) < width) {
              FINISH_SCORE(s[r][j], s[r][j] * scale_value, kind, b, h, row + SUM_ROW(r),
                           first + SCORE_COLUMN(j))
            } else {
              s[r][j] = NEVER;
            }
          }
          SOFTEN(s, largest, total, sums)
          ADD_SCORES(sums, s, value, from_value + first * value_layout.stride[2],
                     value_layout.stride[2], width)
        }
      }
    }
    COMBINE_ROWS(total, BOTH_ADDED)
    const ob_index to = PLACE_OF_ROW(out, b, h, row);
    FOR_SUMS(n, r) {
      const V share = total[r] == (V)0 ? (V)0 : (V)1 / total[r];
      UNROLLED for (int k = 0; k < X_WIDTH; ++k) {
        if (WORKS && SUM_ROW(r) < height && SUM_COLUMN(n, k) < HEAD) {
          out_store(to + SUM_ROW(r) * out_layout.stride[2] +
                    SUM_COLUMN(n, k) * out_layout.stride[3], SUM_OF(sums, n, r, k) * share);
        }
      }
    }
    UNROLLED for (int r = 0; r < TALL; ++r) {
      if (WORKS && across == 0 && SUM_ROW(r) < height) {
        const ob_index place = (b * heads + h) * queries + row + SUM_ROW(r);
        logsumexp_store(place,
                        total[r] == (V)0 ? NEVER : (largest[r] + log(total[r])) / LN2);
        max_scores_store(place, largest[r] / LN2);
      }
    }
  }
}

#endif

#else

// Gradients. Probabilities are recomputed from the scores and `logsumexp`. One kernel loops over
// queries for each block of keys, one over keys for each block of queries, so no sum spans several
// work-groups.

// Converts the dot product of a query and a key, and the gradient of their probability, to the
// probability and the gradient of the product.
#define DIFFERENTIATE(p, g, kind, b, h, m, n, known, minus)                \
  {                                                                        \
    const V ob_raw = (p) * scale_value;                                    \
    V ob_score;                                                            \
    FINISH_SCORE(ob_score, ob_raw, kind, b, h, m, n)                       \
    if (ob_score == NEVER) {                                               \
      p = 0;                                                               \
      g = 0;                                                               \
    } else {                                                               \
      p = exp(ob_score - (known));                                         \
      const V ob_upper = (p) * ((g) - (minus));                            \
      V ob_lower;                                                          \
      SCORE_GRADIENT(ob_lower, ob_raw, b, h, m, n, ob_upper)               \
      g = ob_lower * scale_value;                                          \
    }                                                                      \
  }

// COUNT and BLOCK for the backward: the blocks of queries that a mask leaves to a block of keys.
#if HAS_full_q_counts
#define COUNT_OF_KEYS(kind, at) ((kind) == 0 ? q_counts_load(at) : full_q_counts_load(at))
#define BLOCK_OF_KEYS(kind, at) ((kind) == 0 ? q_indices_load(at) : full_q_indices_load(at))
#else
#define COUNT_OF_KEYS(kind, at) (q_counts_load(at))
#define BLOCK_OF_KEYS(kind, at) (q_indices_load(at))
#endif

#if OB_LOCAL == 1

#define DIFFERENTIATE_TILE(kind, b, h, row, height, first, width)                            \
  for (int r = 0; r < ROWS; ++r) {                                                           \
    V *p = scores + r * KEYS, *g = gradients + r * KEYS;                                     \
    const ob_index place = ((b) * heads + (h)) * queries + (row) + r;                        \
    const V known = r < (height) ? (V)logsumexp_load(place) * LN2 : NEVER;                   \
    const V minus = r < (height) ? delta_load(place) : (V)0;                                 \
    int j = 0;                                                                               \
    for (; known != NEVER && j < (width); ++j) {                                             \
      DIFFERENTIATE(p[j], g[j], kind, b, h, (row) + r, (first) + j, known, minus)            \
    }                                                                                        \
    for (; j < KEYS; ++j) p[j] = g[j] = 0;                                                   \
  }

__kernel void differentiate_keys(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index blocks = (keys + KEYS - 1) / KEYS;
  const ob_index key_heads = heads / shared;
  OB_FOR_GROUPS(group) {
    const ob_index first = group % blocks * KEYS;
    const ob_index key_head = group / blocks % key_heads;
    const ob_index b = group / blocks / key_heads;
    const int width = (int)min((ob_index)KEYS, keys - first);
    V turned_key[HEAD * KEYS], turned_value[HEAD * KEYS];
    V grad_k[KEYS * PADDED], grad_v[KEYS * PADDED], q[ROWS * PADDED], go[ROWS * PADDED];
    V scores[ROWS * KEYS], gradients[ROWS * KEYS];
    READ_TURNED_TILE(key, b * key_layout.stride[0] + key_head * key_layout.stride[1] +
                     first * key_layout.stride[2], key_layout.stride[2], width, KEYS, turned_key)
    READ_TURNED_TILE(value, b * value_layout.stride[0] + key_head * value_layout.stride[1] +
                     first * value_layout.stride[2], value_layout.stride[2], width, KEYS,
                     turned_value)
    clear(grad_k, KEYS * PADDED);
    clear(grad_v, KEYS * PADDED);
    for (ob_index h = key_head * shared; h < (key_head + 1) * shared; ++h) {
      const ob_index list = LIST(key_lists, b, h, first / key_block);
      for (int kind = 0; kind < LISTS; ++kind) {
        const ob_index count = min((ob_index)COUNT_OF_KEYS(kind, list), query_lists);
        for (ob_index k = 0; k < count; ++k) {
          const long begin = (long)BLOCK_OF_KEYS(kind, list * query_lists + k) * query_block;
          const long end = min(begin + query_block, (long)queries);
          for (long row = begin; row >= 0 && row < end; row += ROWS) {
            const int height = (int)min((long)ROWS, end - row);
            READ_TILE(query, b * query_layout.stride[0] + h * query_layout.stride[1] +
                      row * query_layout.stride[2], query_layout.stride[2], height, ROWS, q)
            READ_TILE(grad_out, ((b * heads + h) * queries + row) * HEAD, HEAD, height, ROWS, go)
            clear(scores, ROWS * KEYS);
            clear(gradients, ROWS * KEYS);
            add_product(q, PADDED, 1, turned_key, HEAD, KEYS, scores, KEYS, ROWS, KEYS);
            add_product(go, PADDED, 1, turned_value, HEAD, KEYS, gradients, KEYS, ROWS, KEYS);
            DIFFERENTIATE_TILE(kind, b, h, row, height, first, width)
            add_product(scores, 1, KEYS, go, height, PADDED, grad_v, PADDED, KEYS, PADDED);
            add_product(gradients, 1, KEYS, q, height, PADDED, grad_k, PADDED, KEYS, PADDED);
          }
        }
      }
    }
    for (int r = 0; r < width; ++r) {
      const ob_index to = PLACE_OF_ROW(grad_key, b, key_head, first + r);
      const ob_index other = PLACE_OF_ROW(grad_value, b, key_head, first + r);
      for (int e = 0; e < HEAD; ++e) {
        grad_key_store(to + e * grad_key_layout.stride[3], grad_k[r * PADDED + e]);
        grad_value_store(other + e * grad_value_layout.stride[3], grad_v[r * PADDED + e]);
      }
    }
  }
}

__kernel void differentiate_queries(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index blocks = (queries + ROWS - 1) / ROWS;
  OB_FOR_GROUPS(group) {
    const ob_index row = group % blocks * ROWS;
    const ob_index h = group / blocks % heads;
    const ob_index b = group / blocks / heads;
    const int height = (int)min((ob_index)ROWS, queries - row);
    V turned[HEAD * KEYS], straight[KEYS * PADDED];
    V grad_q[ROWS * PADDED], q[ROWS * PADDED], go[ROWS * PADDED];
    V scores[ROWS * KEYS], gradients[ROWS * KEYS];
    READ_TILE(query, b * query_layout.stride[0] + h * query_layout.stride[1] +
              row * query_layout.stride[2], query_layout.stride[2], height, ROWS, q)
    READ_TILE(grad_out, ((b * heads + h) * queries + row) * HEAD, HEAD, height, ROWS, go)
    clear(grad_q, ROWS * PADDED);
    const ob_index from_key = b * key_layout.stride[0] + h / shared * key_layout.stride[1];
    const ob_index from_value = b * value_layout.stride[0] + h / shared * value_layout.stride[1];
    const ob_index list = LIST(query_blocks, b, h, row / query_block);
    for (int kind = 0; kind < LISTS; ++kind) {
      const ob_index count = min((ob_index)COUNT(kind, list), key_blocks);
      for (ob_index k = 0; k < count; ++k) {
        const long begin = (long)BLOCK(kind, list * key_blocks + k) * key_block;
        const long end = min(begin + key_block, (long)keys);
        for (long first = begin; first >= 0 && first < end; first += KEYS) {
          const int width = (int)min((long)KEYS, end - first);
          clear(scores, ROWS * KEYS);
          clear(gradients, ROWS * KEYS);
          READ_TURNED_TILE(key, from_key + first * key_layout.stride[2], key_layout.stride[2],
                           width, KEYS, turned)
          add_product(q, PADDED, 1, turned, HEAD, KEYS, scores, KEYS, ROWS, KEYS);
          READ_TURNED_TILE(value, from_value + first * value_layout.stride[2],
                           value_layout.stride[2], width, KEYS, turned)
          add_product(go, PADDED, 1, turned, HEAD, KEYS, gradients, KEYS, ROWS, KEYS);
          DIFFERENTIATE_TILE(kind, b, h, row, height, first, width)
          READ_TILE(key, from_key + first * key_layout.stride[2], key_layout.stride[2], width,
                    KEYS, straight)
          add_product(gradients, KEYS, 1, straight, width, PADDED, grad_q, PADDED, ROWS, PADDED);
        }
      }
    }
    for (int r = 0; r < height; ++r) {
      const ob_index to = PLACE_OF_ROW(grad_query, b, h, row + r);
      for (int e = 0; e < HEAD; ++e) {
        grad_query_store(to + e * grad_query_layout.stride[3], grad_q[r * PADDED + e]);
      }
    }
  }
}

#else

__kernel void differentiate_keys(OB_PARAMETERS) {
  OB_BEGIN
  OB_MEMORY
  OB_PLACE
  const ob_index key_heads = heads / shared;
  OB_FOR_GROUPS(group) {
    // Here rows of tiles are keys, and columns queries.
    BLOCK_OF_GROUP(group, key_block, keys, key_heads)
    const ob_index first = start, key_head = h;
    const int width = length;
    const ob_index from_key = PLACE_OF_ROW(key, b, key_head, first);
    const ob_index from_value = PLACE_OF_ROW(value, b, key_head, first);
    V p[TALL][NEAR], g[TALL][NEAR];
    SUMS(grad_k);
    SUMS(grad_v);
    FOR_SUMS(n, r) grad_k[n][r] = grad_v[n][r] = (X)(0);
    for (ob_index h = key_head * shared; h < (key_head + 1) * shared; ++h) {
      const ob_index list = LIST(key_lists, b, h, first / key_block);
      for (int kind = 0; kind < LISTS; ++kind) {
        const ob_index count = min((ob_index)COUNT_OF_KEYS(kind, list), query_lists);
        for (ob_index k = 0; k < count; ++k) {
          const long begin = (long)BLOCK_OF_KEYS(kind, list * query_lists + k) * query_block;
          const long end = min(begin + query_block, (long)queries);
          for (long row = begin; row >= 0 && row < end; row += KEYS) {
            const int height = (int)min((long)KEYS, end - row);
            const ob_index from = PLACE_OF_ROW(query, b, h, row);
            const ob_index known_rows = (b * heads + h) * queries + row;
            MULTIPLY_ROWS(p, key, from_key, key_layout.stride[2], width, query, from,
                          query_layout.stride[2], height)
            MULTIPLY_ROWS(g, value, from_value, value_layout.stride[2], width, grad_out,
                          known_rows * HEAD, HEAD, height)
            UNROLLED for (int j = 0; j < NEAR; ++j) {
              const int i = min(SCORE_COLUMN(j), height - 1);
              const V known = (V)logsumexp_load(known_rows + i) * LN2;
              const V minus = delta_load(known_rows + i);
              UNROLLED for (int r = 0; r < TALL; ++r) {
                if (SCORE_COLUMN(j) < height && SUM_ROW(r) < width && known != NEVER) {
                  DIFFERENTIATE(p[r][j], g[r][j], kind, b, h, row + i, first + SUM_ROW(r), known,
                                minus)
                } else {
                  p[r][j] = g[r][j] = 0;
                }
              }
            }
            ADD_SCORES(grad_v, p, grad_out, known_rows * HEAD, HEAD, height)
            ADD_SCORES(grad_k, g, query, from, query_layout.stride[2], height)
          }
        }
      }
    }
    const ob_index to = PLACE_OF_ROW(grad_key, b, key_head, first);
    const ob_index other = PLACE_OF_ROW(grad_value, b, key_head, first);
    FOR_SUMS(n, r) {
      UNROLLED for (int k = 0; k < X_WIDTH; ++k) {
        if (WORKS && SUM_ROW(r) < width && SUM_COLUMN(n, k) < HEAD) {
          grad_key_store(to + SUM_ROW(r) * grad_key_layout.stride[2] +
                         SUM_COLUMN(n, k) * grad_key_layout.stride[3], SUM_OF(grad_k, n, r, k));
          grad_value_store(other + SUM_ROW(r) * grad_value_layout.stride[2] +
                           SUM_COLUMN(n, k) * grad_value_layout.stride[3],
                           SUM_OF(grad_v, n, r, k));
        }
      }
    }
  }
}

__kernel void differentiate_queries(OB_PARAMETERS) {
  OB_BEGIN
  OB_MEMORY
  OB_PLACE
  OB_FOR_GROUPS(group) {
    BLOCK_OF_GROUP(group, query_block, queries, heads)
    const ob_index row = start;
    const int height = length;
    const ob_index from = PLACE_OF_ROW(query, b, h, row);
    const ob_index from_key = PLACE_OF_ROW(key, b, h / shared, 0);
    const ob_index from_value = PLACE_OF_ROW(value, b, h / shared, 0);
    const ob_index known_rows = (b * heads + h) * queries + row;
    V p[TALL][NEAR], g[TALL][NEAR], known[TALL], minus[TALL];
    SUMS(grad_q);
    FOR_SUMS(n, r) grad_q[n][r] = (X)(0);
    UNROLLED for (int r = 0; r < TALL; ++r) {
      const int i = min(SUM_ROW(r), height - 1);
      known[r] = SUM_ROW(r) < height ? (V)logsumexp_load(known_rows + i) * LN2 : NEVER;
      minus[r] = delta_load(known_rows + i);
    }
    const ob_index list = LIST(query_blocks, b, h, row / query_block);
    for (int kind = 0; kind < LISTS; ++kind) {
      const ob_index count = min((ob_index)COUNT(kind, list), key_blocks);
      for (ob_index k = 0; k < count; ++k) {
        const long begin = (long)BLOCK(kind, list * key_blocks + k) * key_block;
        const long end = min(begin + key_block, (long)keys);
        for (long first = begin; first >= 0 && first < end; first += KEYS) {
          const int width = (int)min((long)KEYS, end - first);
          MULTIPLY_ROWS(p, query, from, query_layout.stride[2], height, key,
                        from_key + first * key_layout.stride[2], key_layout.stride[2], width)
          MULTIPLY_ROWS(g, grad_out, known_rows * HEAD, HEAD, height, value,
                        from_value + first * value_layout.stride[2], value_layout.stride[2], width)
          FOR_SCORES(r, j) {
            if (SCORE_COLUMN(j) < width && known[r] != NEVER) {
              DIFFERENTIATE(p[r][j], g[r][j], kind, b, h, row + SUM_ROW(r),
                            first + SCORE_COLUMN(j), known[r], minus[r])
            } else {
              p[r][j] = g[r][j] = 0;
            }
          }
          ADD_SCORES(grad_q, g, key, from_key + first * key_layout.stride[2],
                     key_layout.stride[2], width)
        }
      }
    }
    const ob_index to = PLACE_OF_ROW(grad_query, b, h, row);
    FOR_SUMS(n, r) {
      UNROLLED for (int k = 0; k < X_WIDTH; ++k) {
        if (WORKS && SUM_ROW(r) < height && SUM_COLUMN(n, k) < HEAD) {
          grad_query_store(to + SUM_ROW(r) * grad_query_layout.stride[2] +
                           SUM_COLUMN(n, k) * grad_query_layout.stride[3],
                           SUM_OF(grad_q, n, r, k));
        }
      }
    }
  }
}

#endif

#endif
