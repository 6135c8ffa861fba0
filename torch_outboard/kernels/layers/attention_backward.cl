// Gradients of scaled dot-product attention. Probabilities are computed again, block by block, from
// the scores and `logsumexp`. One kernel goes through the queries for each block of keys, one
// through the keys for each block of queries, so that nothing is added up by several groups.

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
  delta_store(item, sum);
}

#define LOGSUMEXP(b, h, i)                                                      \
  ((V)logsumexp_load((b) * logsumexp_layout.stride[0] + (h) * logsumexp_layout.stride[1] + \
                     (i) * logsumexp_layout.stride[2]))

#if OB_LOCAL == 1

// Turns scores and the gradients of probabilities into probabilities and the scores' gradients.
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

__kernel void differentiate_keys(OB_PARAMETERS) {
  OB_BEGIN
  const V factor = FACTOR;
  const ob_index blocks = (keys + KEYS - 1) / KEYS;
  const ob_index key_heads = heads / shared;
  OB_FOR_GROUPS(group) {
    const ob_index key_head = group / blocks % key_heads;
    const ob_index b = group / blocks / key_heads;
    for (ob_index j = group % blocks * KEYS + OB_LANE;
         j < min(keys, (group % blocks + 1) * KEYS); j += OB_LOCAL) {
      V k[HEAD], grad_k[HEAD], grad_v[HEAD];
      const ob_index from_key = b * key_layout.stride[0] + key_head * key_layout.stride[1] +
                                j * key_layout.stride[2];
      const ob_index from_value = b * value_layout.stride[0] + key_head * value_layout.stride[1] +
                                  j * value_layout.stride[2];
      for (int e = 0; e < HEAD; ++e) {
        k[e] = key_load(from_key + e);
        grad_k[e] = 0;
        grad_v[e] = 0;
      }
      for (ob_index h = key_head * shared; h < (key_head + 1) * shared; ++h) {
        for (ob_index i = CAUSAL ? j : 0; i < queries; ++i) {
          const V known = LOGSUMEXP(b, h, i);
          if (known == NEVER) continue;
          const ob_index from = b * query_layout.stride[0] + h * query_layout.stride[1] +
                                i * query_layout.stride[2];
          const ob_index row = (b * heads + h) * queries + i;
          V s = 0, gradient = 0;
          for (int e = 0; e < HEAD; ++e) {
            s += k[e] * (V)query_load(from + e);
            gradient += (V)grad_out_load(row * HEAD + e) * (V)value_load(from_value + e);
          }
          const V p = exp(s * factor + MASK(b, h, i, j) - known);
          const V share = p * (gradient - (V)delta_load(row)) * factor;
          for (int e = 0; e < HEAD; ++e) {
            grad_v[e] += p * (V)grad_out_load(row * HEAD + e);
            grad_k[e] += share * (V)query_load(from + e);
          }
        }
      }
      const ob_index to = ((b * keys + j) * key_heads + key_head) * HEAD;
      for (int e = 0; e < HEAD; ++e) {
        grad_key_store(to + e, grad_k[e]);
        grad_value_store(to + e, grad_v[e]);
      }
    }
  }
}

__kernel void differentiate_queries(OB_PARAMETERS) {
  OB_BEGIN
  const V factor = FACTOR;
  const ob_index blocks = (queries + ROWS - 1) / ROWS;
  OB_FOR_GROUPS(group) {
    const ob_index i = group % blocks * ROWS + OB_LANE;
    const ob_index h = group / blocks % heads;
    const ob_index b = group / blocks / heads;
    if (i >= queries) continue;
    V q[HEAD], grad_q[HEAD];
    const ob_index row = (b * heads + h) * queries + i;
    const ob_index from = b * query_layout.stride[0] + h * query_layout.stride[1] +
                          i * query_layout.stride[2];
    for (int e = 0; e < HEAD; ++e) {
      q[e] = query_load(from + e);
      grad_q[e] = 0;
    }
    const V known = LOGSUMEXP(b, h, i);
    const ob_index last = known == NEVER ? 0 : CAUSAL ? min(keys, i + 1) : keys;
    for (ob_index j = 0; j < last; ++j) {
      const ob_index from_key = b * key_layout.stride[0] + h / shared * key_layout.stride[1] +
                                j * key_layout.stride[2];
      const ob_index from_value = b * value_layout.stride[0] +
                                  h / shared * value_layout.stride[1] + j * value_layout.stride[2];
      V s = 0, gradient = 0;
      for (int e = 0; e < HEAD; ++e) {
        s += q[e] * (V)key_load(from_key + e);
        gradient += (V)grad_out_load(row * HEAD + e) * (V)value_load(from_value + e);
      }
      const V p = exp(s * factor + MASK(b, h, i, j) - known);
      const V share = p * (gradient - (V)delta_load(row)) * factor;
      for (int e = 0; e < HEAD; ++e) grad_q[e] += share * (V)key_load(from_key + e);
    }
    const ob_index to = ((b * queries + i) * heads + h) * HEAD;
    for (int e = 0; e < HEAD; ++e) grad_query_store(to + e, grad_q[e]);
  }
}

#endif
