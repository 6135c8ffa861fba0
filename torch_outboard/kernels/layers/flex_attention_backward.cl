// Gradients. Probabilities are computed again from the scores and `logsumexp`. One kernel goes
// through the queries for each block of keys, one through the keys for each block of queries, so that
// nothing is added up by several groups.

// Rows of the probabilities' gradient minus this are those of the scores' gradient.
__kernel void delta_of_rows(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index i = item % queries;
  const ob_index h = item / queries % heads;
  const ob_index b = item / queries / heads;
  const ob_index at = b * out_layout.stride[0] + h * out_layout.stride[1] +
                      i * out_layout.stride[2];
  V sum = 0;
  for (int e = 0; e < HEAD; ++e) {
    sum += (V)grad_out_load(item * HEAD + e) * (V)out_load(at + e * out_layout.stride[3]);
  }
#if HAS_grad_logsumexp
  sum -= grad_logsumexp_load(item) / LN2;
#endif
  delta_store(item, sum);
}

// Turns a product of a query and a key, and the gradient of their probability, into the probability
// and the gradient of the product.
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

// As COUNT and BLOCK: the blocks of queries to which a mask leaves a block of keys.
#if HAS_full_q_counts
#define COUNT_OF_KEYS(kind, at) ((kind) == 0 ? q_counts_load(at) : full_q_counts_load(at))
#define BLOCK_OF_KEYS(kind, at) ((kind) == 0 ? q_indices_load(at) : full_q_indices_load(at))
#else
#define COUNT_OF_KEYS(kind, at) (q_counts_load(at))
#define BLOCK_OF_KEYS(kind, at) (q_indices_load(at))
#endif

#define PLACE_OF_ROW(x, b, h, i)                                             \
  ((b) * x##_layout.stride[0] + (h) * x##_layout.stride[1] + (i) * x##_layout.stride[2])

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
  const ob_index blocks = (keys + KEYS - 1) / KEYS;
  const ob_index key_heads = heads / shared;
  OB_FOR_GROUPS(group) {
    const ob_index key_head = group / blocks % key_heads;
    const ob_index b = group / blocks / key_heads;
    for (ob_index j = group % blocks * KEYS + OB_LANE;
         j < min(keys, (group % blocks + 1) * KEYS); j += OB_LOCAL) {
      V grad_k[HEAD], grad_v[HEAD];
      const ob_index from_key = PLACE_OF_ROW(key, b, key_head, j);
      const ob_index from_value = PLACE_OF_ROW(value, b, key_head, j);
      for (int e = 0; e < HEAD; ++e) grad_k[e] = grad_v[e] = 0;
      for (ob_index h = key_head * shared; h < (key_head + 1) * shared; ++h) {
        const ob_index list = LIST(key_lists, b, h, j / key_block);
        for (int kind = 0; kind < LISTS; ++kind) {
          const ob_index count = min((ob_index)COUNT_OF_KEYS(kind, list), query_lists);
          for (ob_index k = 0; k < count; ++k) {
            const long begin = (long)BLOCK_OF_KEYS(kind, list * query_lists + k) * query_block;
            const long end = min(begin + query_block, (long)queries);
            for (long i = begin; i >= 0 && i < end; ++i) {
              const ob_index row = (b * heads + h) * queries + i;
              const V known = (V)logsumexp_load(row) * LN2;
              if (known == NEVER) continue;
              const ob_index from = PLACE_OF_ROW(query, b, h, i);
              V p = 0, g = 0;
              for (int e = 0; e < HEAD; ++e) {
                p += (V)query_load(from + e) * (V)key_load(from_key + e);
                g += (V)grad_out_load(row * HEAD + e) * (V)value_load(from_value + e);
              }
              DIFFERENTIATE(p, g, kind, b, h, i, j, known, delta_load(row))
              for (int e = 0; e < HEAD; ++e) {
                grad_v[e] += p * (V)grad_out_load(row * HEAD + e);
                grad_k[e] += g * (V)query_load(from + e);
              }
            }
          }
        }
      }
      const ob_index to = PLACE_OF_ROW(grad_key, b, key_head, j);
      const ob_index other = PLACE_OF_ROW(grad_value, b, key_head, j);
      for (int e = 0; e < HEAD; ++e) {
        grad_key_store(to + e * grad_key_layout.stride[3], grad_k[e]);
        grad_value_store(other + e * grad_value_layout.stride[3], grad_v[e]);
      }
    }
  }
}

__kernel void differentiate_queries(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index blocks = (queries + ROWS - 1) / ROWS;
  OB_FOR_GROUPS(group) {
    const ob_index i = group % blocks * ROWS + OB_LANE;
    const ob_index h = group / blocks % heads;
    const ob_index b = group / blocks / heads;
    if (i >= queries) continue;
    V grad_q[HEAD];
    const ob_index row = (b * heads + h) * queries + i;
    const ob_index from = PLACE_OF_ROW(query, b, h, i);
    for (int e = 0; e < HEAD; ++e) grad_q[e] = 0;
    const V known = (V)logsumexp_load(row) * LN2;
    const ob_index list = LIST(query_blocks, b, h, i / query_block);
    for (int kind = 0; known != NEVER && kind < LISTS; ++kind) {
      const ob_index count = min((ob_index)COUNT(kind, list), key_blocks);
      for (ob_index k = 0; k < count; ++k) {
        const long begin = (long)BLOCK(kind, list * key_blocks + k) * key_block;
        const long end = min(begin + key_block, (long)keys);
        for (long j = begin; j >= 0 && j < end; ++j) {
          const ob_index from_key = PLACE_OF_ROW(key, b, h / shared, j);
          const ob_index from_value = PLACE_OF_ROW(value, b, h / shared, j);
          V p = 0, g = 0;
          for (int e = 0; e < HEAD; ++e) {
            p += (V)query_load(from + e) * (V)key_load(from_key + e);
            g += (V)grad_out_load(row * HEAD + e) * (V)value_load(from_value + e);
          }
          DIFFERENTIATE(p, g, kind, b, h, i, j, known, delta_load(row))
          for (int e = 0; e < HEAD; ++e) grad_q[e] += g * (V)key_load(from_key + e);
        }
      }
    }
    const ob_index to = PLACE_OF_ROW(grad_query, b, h, i);
    for (int e = 0; e < HEAD; ++e) grad_query_store(to + e * grad_query_layout.stride[3], grad_q[e]);
  }
}

#endif
