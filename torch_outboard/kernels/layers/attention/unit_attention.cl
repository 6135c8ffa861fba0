// Scaled dot-product attention by matrix units. Needs unit_attention_blocks.cl before it.
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
