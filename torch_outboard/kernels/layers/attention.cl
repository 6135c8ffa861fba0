// Scaled dot-product attention, a block of queries after the other: no matrix of all scores exists.
// Softmax is kept as a running maximum and sum, which rescale what was added before.

// Of a row without keys that count it is zero, as on CPU.
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
  const V factor = FACTOR;
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
    const ob_index last = CAUSAL ? min(keys, i + 1) : keys;
    for (ob_index j = 0; j < last; ++j) {
      const ob_index from_key = b * key_layout.stride[0] + h / shared * key_layout.stride[1] +
                                j * key_layout.stride[2];
      const ob_index from_value = b * value_layout.stride[0] +
                                  h / shared * value_layout.stride[1] + j * value_layout.stride[2];
      V s = 0;
      for (int e = 0; e < HEAD; ++e) s += q[e] * (V)key_load(from_key + e);
      s = s * factor + MASK(b, h, i, j);
      const V next = fmax(largest, s);
      const V shift = next == NEVER ? (V)0 : next;
      const V rescale = exp(largest - shift);
      const V p = exp(s - shift);
      total = total * rescale + p;
      largest = next;
      for (int e = 0; e < HEAD; ++e) sums[e] = sums[e] * rescale + p * (V)value_load(from_value + e);
    }
    const V share = total == (V)0 ? (V)0 : (V)1 / total;
    const ob_index to = b * out_layout.stride[0] + h * out_layout.stride[1] +
                        i * out_layout.stride[2];
    for (int e = 0; e < HEAD; ++e) out_store(to + e * out_layout.stride[3], sums[e] * share);
    logsumexp_store((b * queries + i) * heads + h, LOGSUMEXP(largest, total));
  }
}

#endif
