// FlashAttention-2 in 16-bit floating point by the instructions of matrix_units.cl: shared by
// forward and backward. Needs matrix_units.cl and attention_tiles.cl before it.
//
// A work-group has a warp per 16 rows of its ROWS rows of one operand, which stay in registers as
// left operands. It loops over two other operands in blocks of BLOCK rows, double-buffered in local
// memory. A line of local memory is a row of a head, padded with zeros to a multiple of 16
// elements, plus 16 bytes, so that eight work-items that read adjacent lines access all banks.

#define WARP_ROW ((int)get_local_id(0) / 32 * 16)
#define DEPTHS ((HEAD + 15) / 16)
#define UNITS (2 * DEPTHS)
#define LINE (UNITS * 16 + 16)
// Both operands of two blocks fit in 48 KiB.
#define BLOCK (HEAD <= 80 ? 64 : 32)
#define BLOCK_BYTES (BLOCK * LINE)
#define STAGE_BYTES (2 * BLOCK_BYTES)
#define STAGES __local uchar stages[2 * STAGE_BYTES] __attribute__((aligned(16)))

#define LOG2_E 1.44269504088896341f
#define LN_2 0.693147180559945309f

#define INLINED static inline __attribute__((always_inline))

// Copies `rows` rows of a block to local memory and zeros the other lines. Rows are `step` apart,
// elements `element_step`. Unaligned rows are read by element.
INLINED void copy_rows(LocalAddress to, const __global ushort *from, ob_index step,
                       const ob_index element_step, ob_index rows, int item) {
  const int aligned = (size_t)from % 16 == 0 && step % 8 == 0 && element_step == 1;
  UNIT_UNROLL
  for (int e = 0; e < (BLOCK * UNITS + OB_LOCAL - 1) / OB_LOCAL; ++e) {
    const int number = item + e * OB_LOCAL;
    const int row = number / UNITS, unit = number % UNITS;
    if (BLOCK * UNITS % OB_LOCAL != 0 && number >= BLOCK * UNITS) break;
    const int count = row < rows ? clamp(HEAD - unit * 8, 0, 8) : 0;
    const __global ushort *there = from + (count > 0 ? row * step + unit * 8 * element_step : 0);
    const LocalAddress location = to + row * LINE + unit * 16;
    if (aligned) {
      COPY_ASYNC(location, there, count * 2);
    } else {
      uint words[4];
      UNIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const uint first = 2 * i < count ? there[2 * i * element_step] : 0;
        const uint second = 2 * i + 1 < count ? there[(2 * i + 1) * element_step] : 0;
        words[i] = first | second << 16;
      }
      STORE_UNIT(location, ((uint4)(words[0], words[1], words[2], words[3])));
    }
  }
}

// Copies keys and values from the key `first` on to a stage.
#define READ_BLOCK(first, stage)                                                            \
  copy_rows(begin + (stage) * STAGE_BYTES,                                                  \
            (const __global ushort *)key + from_key + (first) * key_layout.stride[2],       \
            key_layout.stride[2], 1, keys - (first), item);                                 \
  copy_rows(begin + (stage) * STAGE_BYTES + BLOCK_BYTES,                                    \
            (const __global ushort *)value + from_value + (first) * value_layout.stride[2], \
            value_layout.stride[2], 1, keys - (first), item);                               \
  COMMIT_COPIES

// Loads the warp's part of `rows` rows as left operands; missing rows are zero.
INLINED void read_left(uint left[DEPTHS][4], const __global ushort *from, ob_index step,
                       const ob_index element_step, ob_index rows, int item) {
  const int g = item % 32 / 4, t = item % 4;
  UNIT_UNROLL
  for (int i = 0; i < 4; ++i) {
    const ob_index row = item / 32 * 16 + g + i % 2 * 8;
    const __global ushort *there = from + min(row, rows - 1) * step;
    UNIT_UNROLL
    for (int d = 0; d < DEPTHS; ++d) {
      const int e = d * 16 + 2 * t + i / 2 * 8;
      const uint first = row < rows && e < HEAD ? there[e * element_step] : 0;
      const uint second = row < rows && e + 1 < HEAD ? there[(e + 1) * element_step] : 0;
      left[d][i] = first | second << 16;
    }
  }
}

// Offset of a work-item's row of four matrices: lines 0 to 15, at 16 elements.
#define LANE_OFFSET ((int)get_local_id(0) % 16 * LINE + (int)get_local_id(0) % 32 / 16 * 16)

// sums (16 x 16 parts) += left @ lines.T, from the line at `lines` on. `left` is copied first,
// because PoCL's compiler otherwise loses parts of it.
#define MULTIPLY_LINES(sums, parts, left, lines)                               \
  UNIT_UNROLL                                                                  \
  for (int d = 0; d < DEPTHS; ++d) {                                           \
    uint part_of_left[4];                                                      \
    UNIT_UNROLL                                                                \
    for (int i = 0; i < 4; ++i) part_of_left[i] = left[d][i];                  \
    UNIT_UNROLL                                                                \
    for (int c = 0; c < (parts); ++c) {                                        \
      uint loaded[4];                                                          \
      LOAD_MATRICES(loaded, (lines) + lane_offset + c * (16 * LINE) + d * 32); \
      MULTIPLY_ADD(sums[2 * c], part_of_left, loaded[0], loaded[2]);           \
      MULTIPLY_ADD(sums[2 * c + 1], part_of_left, loaded[1], loaded[3]);       \
    }                                                                          \
  }
// sums (16 x HEAD) += left (16 x 16) @ 16 lines.
#define ADD_LINES(sums, left, lines)                           \
  UNIT_UNROLL                                                  \
  for (int d = 0; d < DEPTHS; ++d) {                           \
    uint loaded[4];                                            \
    LOAD_TRANSPOSED(loaded, (lines) + lane_offset + d * 32);   \
    MULTIPLY_ADD(sums[2 * d], left, loaded[0], loaded[1]);     \
    MULTIPLY_ADD(sums[2 * d + 1], left, loaded[2], loaded[3]); \
  }
// 16 columns of sums as a left operand.
#define LEFT_OF_SUMS(left, sums, c)                                             \
  left[0] = rounded_pair(sums[2 * (c)][0], sums[2 * (c)][1]);                   \
  left[1] = rounded_pair(sums[2 * (c)][2], sums[2 * (c)][3]);                   \
  left[2] = rounded_pair(sums[2 * (c) + 1][0], sums[2 * (c) + 1][1]);           \
  left[3] = rounded_pair(sums[2 * (c) + 1][2], sums[2 * (c) + 1][3])

// Scores of queries and keys, whose indices are functions of c and n; masked scores become
// -infinity. With a mask, scores are scaled here: a mask may hold the lowest float, which overflows
// times LOG2_E. Without one, `rate` scales the exponential function's arguments.
#define FINISH_UNIT_SCORES(s, count, b, h, query_number, key_number)          \
  UNIT_UNROLL                                                                 \
  for (int c = 0; c < (count); ++c) {                                         \
    UNIT_UNROLL                                                               \
    for (int n = 0; n < 4; ++n) {                                             \
      const ob_index i = query_number, j = key_number;                        \
      const int counts = i < queries && j < keys && (!CAUSAL || j <= i);      \
      float score = s[c][n];                                                  \
      if (HAS_attn_mask && counts) score = score * factor + MASK(b, h, i, j); \
      s[c][n] = counts ? score : NEVER;                                       \
    }                                                                         \
  }
// Negates operands for a negative factor, so that `rate`, in base 2, is positive: the maximum is
// taken before scaling, and scores of -infinity stay.
#define RATE fmax(fabs(factor) * LOG2_E, 1e-30f)
#define TURN_SIGNS(left)                                                \
  if (!HAS_attn_mask && factor < 0) {                                   \
    UNIT_UNROLL                                                         \
    for (int d = 0; d < DEPTHS; ++d) {                                  \
      UNIT_UNROLL                                                       \
      for (int i = 0; i < 4; ++i) left[d][i] ^= 0x80008000;             \
    }                                                                   \
  }

#define CLEAR_SUMS(sums, count)                            \
  UNIT_UNROLL                                              \
  for (int n = 0; n < (count); ++n) {                      \
    UNIT_UNROLL                                            \
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;            \
  }
// Row r of a work-item's two, of 16 x HEAD sums, times `share`.
#define STORE_SUMS(tensor, to, step, sums, r, share)                                          \
  UNIT_UNROLL                                                                                 \
  for (int n = 0; n < UNITS; ++n) {                                                           \
    const int e = n * 8 + 2 * t;                                                              \
    const float first = sums[n][2 * (r)] * (share), second = sums[n][2 * (r) + 1] * (share);  \
    if ((step) == 1 && (size_t)(tensor + (to)) % 4 == 0 && e + 1 < HEAD) {                    \
      *(__global uint *)(tensor + (to) + e) = rounded_pair(first, second);                    \
    } else {                                                                                  \
      if (e < HEAD) tensor##_store((to) + e * (step), first);                                 \
      if (e + 1 < HEAD) tensor##_store((to) + (e + 1) * (step), second);                      \
    }                                                                                         \
  }

#define WORK_ITEM                                     \
  const int item = get_local_id(0);                   \
  const int g = item % 32 / 4, t = item % 4;          \
  const LocalAddress begin = LOCAL_ADDRESS(stages);   \
  const int lane_offset = LANE_OFFSET;                \
  const float factor = FACTOR;                        \
  const float rate = RATE;
// A work-group's block of queries. Longest rows first: blocks with the most keys.
#define QUERIES_OF_GROUP                                                                             \
  const ob_index row = (CAUSAL ? blocks - 1 - group % blocks : group % blocks) * ROWS;               \
  const ob_index h = group / blocks % heads, b = group / blocks / heads;                             \
  const int height = (int)min((ob_index)ROWS, queries - row);                                        \
  const ob_index from_key = b * key_layout.stride[0] + h / shared * key_layout.stride[1];            \
  const ob_index from_value = b * value_layout.stride[0] + h / shared * value_layout.stride[1];      \
  const ob_index last = CAUSAL ? min(keys, row + height) : keys;

#if !HAS_grad_out

// Scaled dot-product attention by matrix units.
//
// A warp computes 16 queries. Accumulators of scores have the layout of a left operand, so
// probabilities pass in registers to the product with values.

#if HAS_attn_mask
#define EXPONENT(score, shift) (((score) - (shift)) * LOG2_E)
#define NATURAL(largest) (largest)
#else
#define EXPONENT(score, shift) fma(score, rate, -(shift) * rate)
#define NATURAL(largest) ((largest) * (rate * LN_2))
#endif

// The maximum, or the sum, of the four work-items of a row.
#define COMBINE_QUAD(values, both)               \
  UNIT_UNROLL                                    \
  for (int r = 0; r < 2; ++r) {                  \
    float other;                                 \
    SHUFFLE_XOR(other, values[r], 1);            \
    values[r] = both(values[r], other);          \
    SHUFFLE_XOR(other, values[r], 2);            \
    values[r] = both(values[r], other);          \
  }

__kernel void attend(OB_PARAMETERS) {
  OB_BEGIN
  STAGES;
  UNIT_SCRATCH
  WORK_ITEM
  const ob_index blocks = (queries + ROWS - 1) / ROWS;
  OB_FOR_GROUPS(group) {
    QUERIES_OF_GROUP
    READ_BLOCK(0, 0);
    uint q[DEPTHS][4];
    read_left(q, (const __global ushort *)query + b * query_layout.stride[0] +
              h * query_layout.stride[1] + row * query_layout.stride[2], query_layout.stride[2],
              1, height, item);
    TURN_SIGNS(q)
    float sums[UNITS][4], largest[2] = {NEVER, NEVER}, total[2] = {0, 0};
    CLEAR_SUMS(sums, UNITS)
    const ob_index first_query = row + WARP_ROW;
    int stage = 0;
    for (ob_index first = 0; first < last; first += BLOCK) {
      WAIT_FOR_COPIES(0);
      barrier(CLK_LOCAL_MEM_FENCE);
      if (first + BLOCK < last) {
        READ_BLOCK(first + BLOCK, stage ^ 1);
      }
      const LocalAddress lines = begin + stage * STAGE_BYTES;
      WARP_IF(!CAUSAL || first < first_query + 16) {
        float s[BLOCK / 8][4];
        CLEAR_SUMS(s, BLOCK / 8)
        MULTIPLY_LINES(s, BLOCK / 16, q, lines)

        if (HAS_attn_mask || first + BLOCK > keys || (CAUSAL && first + BLOCK > first_query + 1)) {
          FINISH_UNIT_SCORES(s, BLOCK / 8, b, h, first_query + g + n / 2 * 8,
                             first + c * 8 + 2 * t + n % 2)
        }

        float most[2] = {largest[0], largest[1]};
        UNIT_UNROLL
        for (int c = 0; c < BLOCK / 8; ++c) {
          most[0] = fmax(most[0], fmax(s[c][0], s[c][1]));
          most[1] = fmax(most[1], fmax(s[c][2], s[c][3]));
        }
        COMBINE_QUAD(most, fmax)
        UNIT_UNROLL
        for (int r = 0; r < 2; ++r) {
          const float shift = most[r] == NEVER ? 0 : most[r];
          const float rescale = power_of_two(EXPONENT(largest[r], shift));
          largest[r] = most[r];
          total[r] *= rescale;
          UNIT_UNROLL
          for (int c = 0; c < BLOCK / 8; ++c) {
            s[c][2 * r] = power_of_two(EXPONENT(s[c][2 * r], shift));
            s[c][2 * r + 1] = power_of_two(EXPONENT(s[c][2 * r + 1], shift));
            total[r] += s[c][2 * r] + s[c][2 * r + 1];
          }
          UNIT_UNROLL
          for (int n = 0; n < UNITS; ++n) {
            sums[n][2 * r] *= rescale;
            sums[n][2 * r + 1] *= rescale;
          }
        }
        UNIT_UNROLL
        for (int c = 0; c < BLOCK / 16; ++c) {
          uint p[4];
          LEFT_OF_SUMS(p, s, c);
          ADD_LINES(sums, p, lines + BLOCK_BYTES + c * (16 * LINE))
        }
      }
      stage ^= 1;
    }
    COMBINE_QUAD(total, BOTH_ADDED)
    UNIT_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int i = WARP_ROW + g + r * 8;
      if (i < height) {
        const float share = total[r] == 0 ? 0 : 1 / total[r];
        const ob_index to = b * out_layout.stride[0] + h * out_layout.stride[1] +
                            (row + i) * out_layout.stride[2];
        STORE_SUMS(out, to, out_layout.stride[3], sums, r, share)
        if (t == 0) {
          logsumexp_store((b * queries + row + i) * heads + h,
                          total[r] == 0 ? 0 : NATURAL(largest[r]) + log(total[r]));
        }
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // before the next block of queries loads keys
  }
}

#else

// Gradients.
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
  WORK_ITEM
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
  WORK_ITEM
  const ob_index blocks = (queries + ROWS - 1) / ROWS;
  OB_FOR_GROUPS(group) {
    QUERIES_OF_GROUP
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

#endif
