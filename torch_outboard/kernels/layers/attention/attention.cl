// Scaled dot-product attention in blocks of queries, without a matrix of all scores. Softmax is
// online: a running maximum and sum, which rescale earlier partial sums.

#if !HAS_grad_out

// Zero for a row without visible keys, as on CPU.
#define LOGSUMEXP(largest, total) ((total) == (V)0 ? (V)0 : (largest) + log(total))

#if OB_LOCAL == 1

__kernel void attend(OB_PARAMETERS) {
  OB_BEGIN
  const V factor = FACTOR;
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
    const ob_index last = CAUSAL ? min(keys, row + height) : keys;
    for (ob_index first = 0; first < last; first += KEYS) {
      const int width = (int)min((ob_index)KEYS, last - first);
      READ_TURNED_TILE(key, from_key + first * key_layout.stride[2], key_layout.stride[2], width,
                       KEYS, turned)
      READ_TILE(value, from_value + first * value_layout.stride[2], value_layout.stride[2], width,
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
      const ob_index to = b * out_layout.stride[0] + h * out_layout.stride[1] +
                          (row + r) * out_layout.stride[2];
      const ob_index step = out_layout.stride[3];
      int e = 0;
      for (; step == 1 && e + W <= HEAD; e += W) {
        out_store_vector(to + e, LOAD_TILE(sums + r * PADDED + e) * (T)(share));
      }
      for (; e < HEAD; ++e) out_store(to + e * step, sums[r * PADDED + e] * share);
      logsumexp_store((b * queries + row + r) * heads + h, LOGSUMEXP(largest[r], total[r]));
    }
  }
}

#else

__kernel void attend(OB_PARAMETERS) {
  OB_BEGIN
  OB_MEMORY
  OB_PLACE
  const V factor = FACTOR;
  const ob_index blocks = (queries + ROWS - 1) / ROWS;
  OB_FOR_GROUPS(group) {
    // Longest rows first: blocks with the most keys.
    const ob_index row = (CAUSAL ? blocks - 1 - group % blocks : group % blocks) * ROWS;
    const ob_index h = group / blocks % heads;
    const ob_index b = group / blocks / heads;
    const int height = (int)min((ob_index)ROWS, queries - row);
    const ob_index from = b * query_layout.stride[0] + h * query_layout.stride[1] +
                          row * query_layout.stride[2];
    const ob_index from_key = b * key_layout.stride[0] + h / shared * key_layout.stride[1];
    const ob_index from_value = b * value_layout.stride[0] + h / shared * value_layout.stride[1];
    V s[TALL][NEAR], largest[TALL], total[TALL];
    SUMS(sums);
    FOR_SUMS(n, r) sums[n][r] = (X)(0);
    UNROLLED for (int r = 0; r < TALL; ++r) {
      largest[r] = NEVER;
      total[r] = 0;
    }
    const ob_index last = CAUSAL ? min(keys, row + height) : keys;
    for (ob_index first = 0; first < last; first += KEYS) {
      const int width = (int)min((ob_index)KEYS, last - first);
      MULTIPLY_ROWS(s, query, from, query_layout.stride[2], height, key,
                    from_key + first * key_layout.stride[2], key_layout.stride[2], width)
      FOR_SCORES(r, j) {
        const ob_index i = row + SUM_ROW(r), k = first + SCORE_COLUMN(j);
        const int counts = SCORE_COLUMN(j) < width && (!CAUSAL || k <= i);
        V score = s[r][j] * factor;
        if (HAS_attn_mask && counts && SUM_ROW(r) < height) score += MASK(b, h, i, k);
        s[r][j] = counts ? score : NEVER;
      }
      SOFTEN(s, largest, total, sums)
      ADD_SCORES(sums, s, value, from_value + first * value_layout.stride[2],
                 value_layout.stride[2], width)
    }
    COMBINE_ROWS(total, BOTH_ADDED)
    const ob_index to = b * out_layout.stride[0] + h * out_layout.stride[1] +
                        row * out_layout.stride[2];
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
        logsumexp_store((b * queries + row + SUM_ROW(r)) * heads + h,
                        LOGSUMEXP(largest[r], total[r]));
      }
    }
  }
}

#endif

#else

// Gradients of scaled dot-product attention. Probabilities are recomputed by block from the scores
// and `logsumexp`. One kernel loops over queries for each block of keys, one over keys for each
// block of queries, so no sum spans several work-groups.

#define LOGSUMEXP(b, h, i)                                                      \
  ((V)logsumexp_load((b) * logsumexp_layout.stride[0] + (h) * logsumexp_layout.stride[1] + \
                     (i) * logsumexp_layout.stride[2]))

#if OB_LOCAL == 1

// Converts scores and the gradients of probabilities to probabilities and the scores' gradients.
#define DIFFERENTIATE(b, h, row, height)                                            \
  for (int r = 0; r < ROWS; ++r) {                                                  \
    V *p = scores + r * KEYS, *g = gradients + r * KEYS;                            \
    const V known = r < (height) ? LOGSUMEXP(b, h, (row) + r) : NEVER;              \
    if (known == NEVER) {                                                           \
      clear(p, KEYS);                                                               \
      clear(g, KEYS);                                                               \
      continue;                                                                     \
    }                                                                               \
    const T minus = (T)(delta_load(((b) * heads + (h)) * queries + (row) + r));     \
    for (int j = 0; j < KEYS; j += W) {                                             \
      const T each = ob_exp(LOAD_TILE(p + j) - (T)(known));                         \
      STORE_TILE(each, p + j);                                                      \
      STORE_TILE(each * (LOAD_TILE(g + j) - minus) * (T)(factor), g + j);           \
    }                                                                               \
  }

__kernel void differentiate_keys(OB_PARAMETERS) {
  OB_BEGIN
  const V factor = FACTOR;
  const ob_index blocks = (keys + KEYS - 1) / KEYS;
  const ob_index key_heads = heads / shared;
  OB_FOR_GROUPS(group) {
    const ob_index first = group % blocks * KEYS;
    const ob_index key_head = group / blocks % key_heads;
    const ob_index b = group / blocks / key_heads;
    const int width = (int)min((ob_index)KEYS, keys - first);
    V turned_key[HEAD * KEYS], turned_value[HEAD * KEYS];
    V grad_k[KEYS * PADDED], grad_v[KEYS * PADDED], q[ROWS * PADDED], g[ROWS * PADDED];
    V scores[ROWS * KEYS], gradients[ROWS * KEYS];
    READ_TURNED_TILE(key, b * key_layout.stride[0] + key_head * key_layout.stride[1] +
                     first * key_layout.stride[2], key_layout.stride[2], width, KEYS, turned_key)
    READ_TURNED_TILE(value, b * value_layout.stride[0] + key_head * value_layout.stride[1] +
                     first * value_layout.stride[2], value_layout.stride[2], width, KEYS,
                     turned_value)
    clear(grad_k, KEYS * PADDED);
    clear(grad_v, KEYS * PADDED);
    for (ob_index h = key_head * shared; h < (key_head + 1) * shared; ++h) {
      for (ob_index row = CAUSAL ? first / ROWS * ROWS : 0; row < queries; row += ROWS) {
        const int height = (int)min((ob_index)ROWS, queries - row);
        READ_TILE(query, b * query_layout.stride[0] + h * query_layout.stride[1] +
                  row * query_layout.stride[2], query_layout.stride[2], height, ROWS, q)
        READ_TILE(grad_out, ((b * heads + h) * queries + row) * HEAD, HEAD, height, ROWS, g)
        clear(scores, ROWS * KEYS);
        clear(gradients, ROWS * KEYS);
        add_product(q, PADDED, 1, turned_key, HEAD, KEYS, scores, KEYS, ROWS, KEYS);
        FINISH_SCORES(scores, b, h, row, height, first, width)
        add_product(g, PADDED, 1, turned_value, HEAD, KEYS, gradients, KEYS, ROWS, KEYS);
        DIFFERENTIATE(b, h, row, height)
        add_product(scores, 1, KEYS, g, height, PADDED, grad_v, PADDED, KEYS, PADDED);
        add_product(gradients, 1, KEYS, q, height, PADDED, grad_k, PADDED, KEYS, PADDED);
      }
    }
    for (int r = 0; r < width; ++r) {
      const ob_index to = ((b * keys + first + r) * key_heads + key_head) * HEAD;
      for (int e = 0; e < HEAD; ++e) {
        grad_key_store(to + e, grad_k[r * PADDED + e]);
        grad_value_store(to + e, grad_v[r * PADDED + e]);
      }
    }
  }
}

__kernel void differentiate_queries(OB_PARAMETERS) {
  OB_BEGIN
  const V factor = FACTOR;
  const ob_index blocks = (queries + ROWS - 1) / ROWS;
  OB_FOR_GROUPS(group) {
    const ob_index row = group % blocks * ROWS;
    const ob_index h = group / blocks % heads;
    const ob_index b = group / blocks / heads;
    const int height = (int)min((ob_index)ROWS, queries - row);
    V turned[HEAD * KEYS], straight[KEYS * PADDED];
    V grad_q[ROWS * PADDED], q[ROWS * PADDED], g[ROWS * PADDED];
    V scores[ROWS * KEYS], gradients[ROWS * KEYS];
    READ_TILE(query, b * query_layout.stride[0] + h * query_layout.stride[1] +
              row * query_layout.stride[2], query_layout.stride[2], height, ROWS, q)
    READ_TILE(grad_out, ((b * heads + h) * queries + row) * HEAD, HEAD, height, ROWS, g)
    clear(grad_q, ROWS * PADDED);
    const ob_index from_key = b * key_layout.stride[0] + h / shared * key_layout.stride[1];
    const ob_index from_value = b * value_layout.stride[0] + h / shared * value_layout.stride[1];
    const ob_index last = CAUSAL ? min(keys, row + height) : keys;
    for (ob_index first = 0; first < last; first += KEYS) {
      const int width = (int)min((ob_index)KEYS, last - first);
      clear(scores, ROWS * KEYS);
      clear(gradients, ROWS * KEYS);
      READ_TURNED_TILE(key, from_key + first * key_layout.stride[2], key_layout.stride[2], width,
                       KEYS, turned)
      add_product(q, PADDED, 1, turned, HEAD, KEYS, scores, KEYS, ROWS, KEYS);
      FINISH_SCORES(scores, b, h, row, height, first, width)
      READ_TURNED_TILE(value, from_value + first * value_layout.stride[2], value_layout.stride[2],
                       width, KEYS, turned)
      add_product(g, PADDED, 1, turned, HEAD, KEYS, gradients, KEYS, ROWS, KEYS);
      DIFFERENTIATE(b, h, row, height)
      READ_TILE(key, from_key + first * key_layout.stride[2], key_layout.stride[2], width, KEYS,
                straight)
      add_product(gradients, KEYS, 1, straight, width, PADDED, grad_q, PADDED, ROWS, PADDED);
    }
    for (int r = 0; r < height; ++r) {
      const ob_index to = ((b * queries + row + r) * heads + h) * HEAD;
      for (int e = 0; e < HEAD; ++e) grad_query_store(to + e, grad_q[r * PADDED + e]);
    }
  }
}

#else

// Converts the dot product of a query and a key, and the gradient of their probability, to the
// probability and the gradient of the product. `known` is NEVER for missing queries.
#define DIFFERENTIATE(p, g, b, h, i, j, there, known, minus)                          \
  if (!(there) || (known) == NEVER || (CAUSAL && (j) > (i))) {                        \
    p = g = 0;                                                                        \
  } else {                                                                            \
    p = exp((p) * factor + MASK(b, h, i, j) - (known));                               \
    g = (p) * ((g) - (minus)) * factor;                                               \
  }

__kernel void differentiate_keys(OB_PARAMETERS) {
  OB_BEGIN
  OB_MEMORY
  OB_PLACE
  const V factor = FACTOR;
  const ob_index blocks = (keys + ROWS - 1) / ROWS;
  const ob_index key_heads = heads / shared;
  OB_FOR_GROUPS(group) {
    // Here rows of tiles are keys, and columns queries.
    const ob_index first = group % blocks * ROWS;
    const ob_index key_head = group / blocks % key_heads;
    const ob_index b = group / blocks / key_heads;
    const int width = (int)min((ob_index)ROWS, keys - first);
    const ob_index from_key = b * key_layout.stride[0] + key_head * key_layout.stride[1] +
                              first * key_layout.stride[2];
    const ob_index from_value = b * value_layout.stride[0] + key_head * value_layout.stride[1] +
                                first * value_layout.stride[2];
    V p[TALL][NEAR], g[TALL][NEAR];
    SUMS(grad_k);
    SUMS(grad_v);
    FOR_SUMS(n, r) grad_k[n][r] = grad_v[n][r] = (X)(0);
    for (ob_index h = key_head * shared; h < (key_head + 1) * shared; ++h) {
      for (ob_index row = CAUSAL ? first : 0; row < queries; row += KEYS) {
        const int height = (int)min((ob_index)KEYS, queries - row);
        const ob_index from = b * query_layout.stride[0] + h * query_layout.stride[1] +
                              row * query_layout.stride[2];
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
    FOR_SUMS(n, r) {
      const ob_index to = ((b * keys + first + SUM_ROW(r)) * key_heads + key_head) * HEAD;
      UNROLLED for (int k = 0; k < X_WIDTH; ++k) {
        if (WORKS && SUM_ROW(r) < width && SUM_COLUMN(n, k) < HEAD) {
          grad_key_store(to + SUM_COLUMN(n, k), SUM_OF(grad_k, n, r, k));
          grad_value_store(to + SUM_COLUMN(n, k), SUM_OF(grad_v, n, r, k));
        }
      }
    }
  }
}

__kernel void differentiate_queries(OB_PARAMETERS) {
  OB_BEGIN
  OB_MEMORY
  OB_PLACE
  const V factor = FACTOR;
  const ob_index blocks = (queries + ROWS - 1) / ROWS;
  OB_FOR_GROUPS(group) {
    // Longest rows first: blocks with the most keys.
    const ob_index row = (CAUSAL ? blocks - 1 - group % blocks : group % blocks) * ROWS;
    const ob_index h = group / blocks % heads;
    const ob_index b = group / blocks / heads;
    const int height = (int)min((ob_index)ROWS, queries - row);
    const ob_index from = b * query_layout.stride[0] + h * query_layout.stride[1] +
                          row * query_layout.stride[2];
    const ob_index from_key = b * key_layout.stride[0] + h / shared * key_layout.stride[1];
    const ob_index from_value = b * value_layout.stride[0] + h / shared * value_layout.stride[1];
    const ob_index known_rows = (b * heads + h) * queries + row;
    V p[TALL][NEAR], g[TALL][NEAR], known[TALL], minus[TALL];
    SUMS(grad_q);
    FOR_SUMS(n, r) grad_q[n][r] = (X)(0);
    UNROLLED for (int r = 0; r < TALL; ++r) {
      const int i = min(SUM_ROW(r), height - 1);
      known[r] = SUM_ROW(r) < height ? LOGSUMEXP(b, h, row + i) : NEVER;
      minus[r] = delta_load(known_rows + i);
    }
    const ob_index last = CAUSAL ? min(keys, row + height) : keys;
    for (ob_index first = 0; first < last; first += KEYS) {
      const int width = (int)min((ob_index)KEYS, last - first);
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
    FOR_SUMS(n, r) {
      const ob_index to = ((b * queries + row + SUM_ROW(r)) * heads + h) * HEAD;
      UNROLLED for (int k = 0; k < X_WIDTH; ++k) {
        if (WORKS && SUM_ROW(r) < height && SUM_COLUMN(n, k) < HEAD) {
          grad_query_store(to + SUM_COLUMN(n, k), SUM_OF(grad_q, n, r, k));
        }
      }
    }
  }
}

#endif

#endif
