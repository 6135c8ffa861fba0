// The forward pass: softmax is kept as in attention.cl.

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
  const ob_index blocks = (queries + ROWS - 1) / ROWS;
  OB_FOR_GROUPS(group) {
    const ob_index i = group % blocks * ROWS + OB_LANE;
    const ob_index h = group / blocks % heads;
    const ob_index b = group / blocks / heads;
    if (i >= queries) continue;
    V q[HEAD], sums[HEAD];
    const ob_index from = b * query_layout.stride[0] + h * query_layout.stride[1] +
                          i * query_layout.stride[2];
    for (int e = 0; e < HEAD; ++e) {
      q[e] = query_load(from + e);
      sums[e] = 0;
    }
    V largest = NEVER, total = 0;
    const ob_index list = LIST(query_blocks, b, h, i / query_block);
    for (int kind = 0; kind < LISTS; ++kind) {
      const ob_index count = min((ob_index)COUNT(kind, list), key_blocks);
      for (ob_index k = 0; k < count; ++k) {
        const long begin = (long)BLOCK(kind, list * key_blocks + k) * key_block;
        const long end = min(begin + key_block, (long)keys);
        for (long j = begin; j >= 0 && j < end; ++j) {
          const ob_index from_key = b * key_layout.stride[0] + h / shared * key_layout.stride[1] +
                                    j * key_layout.stride[2];
          const ob_index from_value = b * value_layout.stride[0] +
                                      h / shared * value_layout.stride[1] +
                                      j * value_layout.stride[2];
          V s = 0;
          for (int e = 0; e < HEAD; ++e) s += q[e] * (V)key_load(from_key + e);
          FINISH_SCORE(s, s * scale_value, kind, b, h, i, j)
          const V next = fmax(largest, s);
          const V shift = next == NEVER ? (V)0 : next;
          const V rescale = exp(largest - shift);
          const V p = exp(s - shift);
          total = total * rescale + p;
          largest = next;
          for (int e = 0; e < HEAD; ++e) {
            sums[e] = sums[e] * rescale + p * (V)value_load(from_value + e);
          }
        }
      }
    }
    const V share = total == (V)0 ? (V)0 : (V)1 / total;
    const ob_index to = b * out_layout.stride[0] + h * out_layout.stride[1] +
                        i * out_layout.stride[2];
    for (int e = 0; e < HEAD; ++e) out_store(to + e * out_layout.stride[3], sums[e] * share);
    const ob_index place = (b * heads + h) * queries + i;
    logsumexp_store(place, total == (V)0 ? NEVER : (largest + log(total)) / LN2);
    max_scores_store(place, largest / LN2);
  }
}

#endif
