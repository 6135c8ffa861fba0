// Gradients of attention by matrix units. Needs unit_attention_blocks.cl and attention_delta.cl.
//
// Probabilities and gradients of scores are accumulators that become left operands in registers. In
// one kernel a warp has 16 keys and loops over queries, in the other 16 queries and loops over
// keys: scores are computed twice, and no two work-groups add to one element.

// Columns of scores that a warp computes at once, in parts of 16.
#define PARTS_AT_ONCE (HEAD <= 80 ? 2 : 1)

// logsumexp of a row: base 2 without a mask. For missing rows and rows without keys it is infinite,
// and all probabilities are zero.
#if HAS_attn_mask
#define KNOWN_UNIT 1.0f
#define PROBABILITY(score, known) power_of_two(((score) - (known)) * LOG2_E)
#else
#define KNOWN_UNIT LOG2_E
#define PROBABILITY(score, known) power_of_two(fma(score, rate, -(known)))
#endif
#define KNOWN(there, b, h, i)                                                                    \
  known_of((there) ? logsumexp_load((b) * logsumexp_layout.stride[0] +                           \
                                    (h) * logsumexp_layout.stride[1] +                           \
                                    (i) * logsumexp_layout.stride[2])                            \
                   : NEVER)
INLINED float known_of(float logsumexp) {
  return logsumexp == NEVER ? INFINITY : logsumexp * KNOWN_UNIT;
}

// Converts a score and the gradient of its probability to the probability and the gradient of the
// scaled score.
#define DIFFERENTIATE(p, g, known, minus) \
  p = PROBABILITY(p, known);              \
  g = (p) * ((g) - (minus))

#define ROWS_OF(tensor, from, row) \
  (const __global ushort *)tensor + (from) + (row) * tensor##_layout.stride[2]

__kernel void differentiate_keys(OB_PARAMETERS) {
  OB_BEGIN
  STAGES;
  UNIT_SCRATCH
  __local float knowns[2 * BLOCK], minuses[2 * BLOCK];
  const int item = get_local_id(0);
  const int g = item % 32 / 4, t = item % 4;
  const LocalAddress begin = LOCAL_ADDRESS(stages);
  const int lane_offset = LANE_OFFSET;
  const float factor = FACTOR;
  const float rate = RATE;
  const ob_index blocks = (keys + ROWS - 1) / ROWS;
  const ob_index key_heads = heads / shared;
  OB_FOR_GROUPS(group) {
    const ob_index first = group % blocks * ROWS;
    const ob_index key_head = group / blocks % key_heads;
    const ob_index b = group / blocks / key_heads;
    const int width = (int)min((ob_index)ROWS, keys - first);
    uint k[DEPTHS][4], v[DEPTHS][4];
    read_left(k, ROWS_OF(key, b * key_layout.stride[0] + key_head * key_layout.stride[1], first),
              key_layout.stride[2], 1, width, item);
    read_left(v, ROWS_OF(value, b * value_layout.stride[0] + key_head * value_layout.stride[1],
                         first), value_layout.stride[2], 1, width, item);
    TURN_SIGNS(k)
    const ob_index first_key = first + WARP_ROW;
    float grad_k[UNITS][4], grad_v[UNITS][4];
    CLEAR_SUMS(grad_k, UNITS)
    CLEAR_SUMS(grad_v, UNITS)

    // Loop over blocks of queries of each head that shares these keys. One is loaded while the
    // previous one is multiplied.
    const ob_index first_row = CAUSAL ? first / BLOCK * BLOCK : 0;
    const ob_index of_head = max((queries - first_row + BLOCK - 1) / BLOCK, (ob_index)0);
    ob_index h = key_head * shared, row = first_row;
    ob_index read_head = h, read_row = row;
    for (ob_index n = 0; n <= of_head * shared; ++n) {
      const int reading = n % 2, reads = n < of_head * shared;
      float known = 0, minus = 0;
      WAIT_FOR_COPIES(0);
      barrier(CLK_LOCAL_MEM_FENCE);
      if (reads) {
        const LocalAddress to = begin + reading * STAGE_BYTES;
        const ob_index known_row = (b * heads + read_head) * queries + read_row;
        copy_rows(to, ROWS_OF(query, b * query_layout.stride[0] +
                              read_head * query_layout.stride[1], read_row),
                  query_layout.stride[2], 1, queries - read_row, item);
        copy_rows(to + BLOCK_BYTES, ROWS_OF(grad_out, b * grad_out_layout.stride[0] +
                                            read_head * grad_out_layout.stride[1], read_row),
                  grad_out_layout.stride[2], grad_out_layout.stride[3], queries - read_row, item);
        COMMIT_COPIES;
        if (item < BLOCK) {
          const int there = read_row + item < queries;
          known = KNOWN(there, b, read_head, read_row + item);
          if (there) minus = delta_load(known_row + item);
        }
      }
      if (n > 0) {
        const int stage = 1 - reading;
        const LocalAddress lines = begin + stage * STAGE_BYTES;
        for (int part = 0; part < BLOCK; part += 16 * PARTS_AT_ONCE)
        WARP_IF(!CAUSAL || row + part + 16 * PARTS_AT_ONCE > first_key) {
          float p[2 * PARTS_AT_ONCE][4], ds[2 * PARTS_AT_ONCE][4];
          CLEAR_SUMS(p, 2 * PARTS_AT_ONCE)
          CLEAR_SUMS(ds, 2 * PARTS_AT_ONCE)
          MULTIPLY_LINES(p, PARTS_AT_ONCE, k, lines + part * LINE)
          MULTIPLY_LINES(ds, PARTS_AT_ONCE, v, lines + BLOCK_BYTES + part * LINE)
          // Sums of missing keys are not stored.
          if (HAS_attn_mask || (CAUSAL && row + part < first_key + 15)) {
            FINISH_UNIT_SCORES(p, 2 * PARTS_AT_ONCE, b, h, row + part + c * 8 + 2 * t + n % 2,
                               first_key + g + n / 2 * 8)
          }
          UNIT_UNROLL
          for (int c = 0; c < 2 * PARTS_AT_ONCE; ++c) {
            UNIT_UNROLL
            for (int i = 0; i < 4; ++i) {
              const int at = stage * BLOCK + part + c * 8 + 2 * t + i % 2;
              DIFFERENTIATE(p[c][i], ds[c][i], knowns[at], minuses[at]);
            }
          }
          UNIT_UNROLL
          for (int c = 0; c < PARTS_AT_ONCE; ++c) {
            uint left[4];
            LEFT_OF_SUMS(left, p, c);
            ADD_LINES(grad_v, left, lines + BLOCK_BYTES + (part + c * 16) * LINE)
            LEFT_OF_SUMS(left, ds, c);
            ADD_LINES(grad_k, left, lines + (part + c * 16) * LINE)
          }
        }
      }
      h = read_head;
      row = read_row;
      read_row += BLOCK;
      if (read_row >= queries) {
        read_row = first_row;
        ++read_head;
      }
      if (reads && item < BLOCK) {
        knowns[reading * BLOCK + item] = known;
        minuses[reading * BLOCK + item] = minus;
      }
    }
    UNIT_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int j = WARP_ROW + g + r * 8;
      if (j < width) {
        const ob_index to = ((b * keys + first + j) * key_heads + key_head) * HEAD;
        STORE_SUMS(grad_key, to, 1, grad_k, r, factor)
        STORE_SUMS(grad_value, to, 1, grad_v, r, 1)
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // before the next block of keys loads queries
  }
}

__kernel void differentiate_queries(OB_PARAMETERS) {
  OB_BEGIN
  STAGES;
  UNIT_SCRATCH
  const int item = get_local_id(0);
  const int g = item % 32 / 4, t = item % 4;
  const LocalAddress begin = LOCAL_ADDRESS(stages);
  const int lane_offset = LANE_OFFSET;
  const float factor = FACTOR;
  const float rate = RATE;
  const ob_index blocks = (queries + ROWS - 1) / ROWS;
  OB_FOR_GROUPS(group) {
    // Longest rows first: blocks with the most keys.
    const ob_index row = (CAUSAL ? blocks - 1 - group % blocks : group % blocks) * ROWS;
    const ob_index h = group / blocks % heads;
    const ob_index b = group / blocks / heads;
    const int height = (int)min((ob_index)ROWS, queries - row);
    const ob_index from_key = b * key_layout.stride[0] + h / shared * key_layout.stride[1];
    const ob_index from_value = b * value_layout.stride[0] + h / shared * value_layout.stride[1];
    const ob_index last = CAUSAL ? min(keys, row + height) : keys;
    const ob_index known_row = (b * heads + h) * queries + row;
    READ_BLOCK(0, 0);
    uint q[DEPTHS][4], o[DEPTHS][4];
    read_left(q, ROWS_OF(query, b * query_layout.stride[0] + h * query_layout.stride[1], row),
              query_layout.stride[2], 1, height, item);
    read_left(o, ROWS_OF(grad_out, b * grad_out_layout.stride[0] + h * grad_out_layout.stride[1],
                         row), grad_out_layout.stride[2], grad_out_layout.stride[3], height, item);
    TURN_SIGNS(q)
    float known[2], minus[2] = {0, 0};
    UNIT_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int i = WARP_ROW + g + r * 8;
      known[r] = KNOWN(i < height, b, h, row + i);
      if (i < height) minus[r] = delta_load(known_row + i);
    }
    const ob_index first_query = row + WARP_ROW;
    float grad_q[UNITS][4];
    CLEAR_SUMS(grad_q, UNITS)
    int stage = 0;
    for (ob_index first = 0; first < last; first += BLOCK) {
      WAIT_FOR_COPIES(0);
      barrier(CLK_LOCAL_MEM_FENCE);
      if (first + BLOCK < last) {
        READ_BLOCK(first + BLOCK, stage ^ 1);
      }
      const LocalAddress lines = begin + stage * STAGE_BYTES;
      for (int part = 0; part < BLOCK; part += 16 * PARTS_AT_ONCE)
      WARP_IF(!CAUSAL || first + part < first_query + 16) {
        float p[2 * PARTS_AT_ONCE][4], ds[2 * PARTS_AT_ONCE][4];
        CLEAR_SUMS(p, 2 * PARTS_AT_ONCE)
        CLEAR_SUMS(ds, 2 * PARTS_AT_ONCE)
        MULTIPLY_LINES(p, PARTS_AT_ONCE, q, lines + part * LINE)
        MULTIPLY_LINES(ds, PARTS_AT_ONCE, o, lines + BLOCK_BYTES + part * LINE)
        const ob_index end = first + part + 16 * PARTS_AT_ONCE;
        if (HAS_attn_mask || end > keys || (CAUSAL && end > first_query + 1)) {
          FINISH_UNIT_SCORES(p, 2 * PARTS_AT_ONCE, b, h, first_query + g + n / 2 * 8,
                             first + part + c * 8 + 2 * t + n % 2)
        }
        UNIT_UNROLL
        for (int c = 0; c < 2 * PARTS_AT_ONCE; ++c) {
          UNIT_UNROLL
          for (int i = 0; i < 4; ++i) {
            DIFFERENTIATE(p[c][i], ds[c][i], known[i / 2], minus[i / 2]);
          }
        }
        UNIT_UNROLL
        for (int c = 0; c < PARTS_AT_ONCE; ++c) {
          uint left[4];
          LEFT_OF_SUMS(left, ds, c);
          ADD_LINES(grad_q, left, lines + (part + c * 16) * LINE)
        }
      }
      stage ^= 1;
    }
    UNIT_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int i = WARP_ROW + g + r * 8;
      if (i < height) {
        const ob_index to = ((b * queries + row + i) * heads + h) * HEAD;
        STORE_SUMS(grad_query, to, 1, grad_q, r, factor)
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // before the next block of queries loads keys
  }
}
