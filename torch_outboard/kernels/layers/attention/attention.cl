// Scaled dot-product attention in blocks of queries, without a matrix of all scores. Softmax is
// online: a running maximum and sum, which rescale earlier partial sums.

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
