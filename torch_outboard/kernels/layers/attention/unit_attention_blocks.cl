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
    const LocalAddress place = to + row * LINE + unit * 16;
    if (aligned) {
      COPY_ASYNC(place, there, count * 2);
    } else {
      uint words[4];
      UNIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const uint first = 2 * i < count ? there[2 * i * element_step] : 0;
        const uint second = 2 * i + 1 < count ? there[(2 * i + 1) * element_step] : 0;
        words[i] = first | second << 16;
      }
      STORE_UNIT(place, ((uint4)(words[0], words[1], words[2], words[3])));
    }
  }
}

// Copies keys and values from the key `first` on to a stage.
#define READ_BLOCK(first, stage)                                                              \
  copy_rows(begin + (stage) * STAGE_BYTES,                                                    \
            (const __global ushort *)key + from_key + (first) * key_layout.stride[2],         \
            key_layout.stride[2], 1, keys - (first), item);                                      \
  copy_rows(begin + (stage) * STAGE_BYTES + BLOCK_BYTES,                                      \
            (const __global ushort *)value + from_value + (first) * value_layout.stride[2],   \
            value_layout.stride[2], 1, keys - (first), item);                                    \
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
#define MULTIPLY_LINES(sums, parts, left, lines)                              \
  UNIT_UNROLL                                                                 \
  for (int d = 0; d < DEPTHS; ++d) {                                          \
    uint part_of_left[4];                                                     \
    UNIT_UNROLL                                                               \
    for (int i = 0; i < 4; ++i) part_of_left[i] = left[d][i];                 \
    UNIT_UNROLL                                                               \
    for (int c = 0; c < (parts); ++c) {                                       \
      uint loaded[4];                                                         \
      LOAD_MATRICES(loaded, (lines) + lane_offset + c * (16 * LINE) + d * 32); \
      MULTIPLY_ADD(sums[2 * c], part_of_left, loaded[0], loaded[2]);          \
      MULTIPLY_ADD(sums[2 * c + 1], part_of_left, loaded[1], loaded[3]);      \
    }                                                                         \
  }
// sums (16 x HEAD) += left (16 x 16) @ 16 lines.
#define ADD_LINES(sums, left, lines)                                \
  UNIT_UNROLL                                                       \
  for (int d = 0; d < DEPTHS; ++d) {                                \
    uint loaded[4];                                                  \
    LOAD_TRANSPOSED(loaded, (lines) + lane_offset + d * 32);         \
    MULTIPLY_ADD(sums[2 * d], left, loaded[0], loaded[1]);            \
    MULTIPLY_ADD(sums[2 * d + 1], left, loaded[2], loaded[3]);        \
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
