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
