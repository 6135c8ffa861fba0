// Blocks of attention, shared by forward and backward.
//
// HEAD: head size. A work-group computes a block of ROWS rows in a loop over blocks of KEYS keys.
// On a CPU, where a work-group is one work-item, tiles are multiplied in vectors of W values in
// private memory. On a GPU the work-items of a group share tiles in local memory.

#define PADDED ((HEAD + 2 * W - 1) / (2 * W) * (2 * W))
#define NEVER ((V)(-INFINITY))
#define LN2 ((V)0.693147180559945309417)

// Factor of the scores: `scale`, or the default.
#define FACTOR (has_scale ? scale_value : (R)1 / sqrt((R)HEAD))

#if HAS_attn_mask
#define MASK(b, h, i, j)                                                                   \
  (mask_boolean ? (attn_mask_load(MASK_OFFSET(b, h, i, j)) != 0 ? (V)0 : NEVER)            \
                : (V)attn_mask_load(MASK_OFFSET(b, h, i, j)))
#define MASK_OFFSET(b, h, i, j) \
  ((b) * mask_batch + (h) * mask_head + (i) * mask_query + (j) * mask_key)
#else
#define MASK(b, h, i, j) ((V)0)
#endif

#define KEYS 64

#if OB_LOCAL == 1

// c (rows x columns) += a @ b, row-major tiles. a has any strides; rows: a multiple of 4; columns:
// a multiple of two vectors.
static inline void add_product(const V *a, const int a_row, const int a_depth, const V *b,
                               const int depth, const int b_row, V *c, const int c_row,
                               const int rows, const int columns) {
  for (int r = 0; r < rows; r += 4) {
    for (int n = 0; n < columns; n += 2 * W) {
      V *to = c + r * c_row + n;
      const V *x = a + r * a_row;
      const V *y = b + n;
      T s00 = OB_VLOAD(to), s01 = OB_VLOAD(to + W);
      T s10 = OB_VLOAD(to + c_row), s11 = OB_VLOAD(to + c_row + W);
      T s20 = OB_VLOAD(to + 2 * c_row), s21 = OB_VLOAD(to + 2 * c_row + W);
      T s30 = OB_VLOAD(to + 3 * c_row), s31 = OB_VLOAD(to + 3 * c_row + W);
      for (int k = 0; k < depth; ++k, x += a_depth, y += b_row) {
        const T y0 = OB_VLOAD(y), y1 = OB_VLOAD(y + W);
        const T x0 = (T)(x[0]), x1 = (T)(x[a_row]), x2 = (T)(x[2 * a_row]), x3 = (T)(x[3 * a_row]);
        s00 = x0 * y0 + s00;
        s01 = x0 * y1 + s01;
        s10 = x1 * y0 + s10;
        s11 = x1 * y1 + s11;
        s20 = x2 * y0 + s20;
        s21 = x2 * y1 + s21;
        s30 = x3 * y0 + s30;
        s31 = x3 * y1 + s31;
      }
      OB_VSTORE(s00, to);
      OB_VSTORE(s01, to + W);
      OB_VSTORE(s10, to + c_row);
      OB_VSTORE(s11, to + c_row + W);
      OB_VSTORE(s20, to + 2 * c_row);
      OB_VSTORE(s21, to + 2 * c_row + W);
      OB_VSTORE(s30, to + 3 * c_row);
      OB_VSTORE(s31, to + 3 * c_row + W);
    }
  }
}

static inline void clear(V *tile, const int size) {
  for (int i = 0; i < size; i += W) OB_VSTORE((T)(0), tile + i);
}

// `rows` rows of a head into a tile of `height` rows of PADDED values, or into its transpose,
// padded with zeros.
#define READ_TILE(tensor, from, step, rows, height, tile)                    \
  for (int r = 0; r < (height); ++r) {                                       \
    V *to = (tile) + r * PADDED;                                             \
    int e = 0;                                                               \
    if (r < (rows)) {                                                        \
      const ob_index at = (from) + r * (step);                               \
      for (; e + W <= HEAD; e += W) OB_VSTORE(tensor##_load_vector(at + e), to + e); \
      for (; e < HEAD; ++e) to[e] = tensor##_load(at + e);                   \
    }                                                                        \
    for (; e < PADDED; ++e) to[e] = 0;                                       \
  }
#define READ_TURNED_TILE(tensor, from, step, rows, height, tile)             \
  for (int r = 0; r < (height); ++r) {                                       \
    const ob_index at = (from) + r * (step);                                 \
    for (int e = 0; e < HEAD; ++e) {                                         \
      (tile)[e * (height) + r] = r < (rows) ? (V)tensor##_load(at + e) : (V)0; \
    }                                                                        \
  }

// Adds KEYS scores of a row to its online softmax: scores become probabilities relative to the
// running maximum, and earlier partial sums are rescaled to it.
static inline void soften(V *scores, V *largest, V *total, V *sum) {
  T most = OB_VLOAD(scores);
  for (int j = W; j < KEYS; j += W) most = fmax(most, OB_VLOAD(scores + j));
  const V next = fmax(*largest, OB_MAX(most));
  const V shift = next == NEVER ? (V)0 : next;
  const V rescale = exp(*largest - shift);
  T added = (T)(0);
  for (int j = 0; j < KEYS; j += W) {
    const T p = ob_exp(OB_VLOAD(scores + j) - (T)(shift));
    added += p;
    OB_VSTORE(p, scores + j);
  }
  *total = *total * rescale + OB_SUM(added);
  *largest = next;
  if (rescale == (V)1) return;
  for (int e = 0; e < PADDED; e += W) {
    OB_VSTORE(OB_VLOAD(sum + e) * (T)(rescale), sum + e);
  }
}

#else

// The work-items of a group form HIGH rows of ACROSS. Each has TALL x NEAR scores of a tile in
// registers, in rows HIGH and columns ACROSS apart, so that adjacent work-items read adjacent
// banks, and as many rows of sums. Operands are loaded to local memory by chunks, so 32 KiB suffice
// for any HEAD.

#if OB_DTYPE_BITS == 64
typedef double4 V4;
#define CHUNK 16
#else
typedef float4 V4;
#define CHUNK 32
#endif

#if OB_LOCAL >= 16
#define ACROSS 16
#elif OB_LOCAL >= 4
#define ACROSS 4
#else
#define ACROSS 1
#endif
#define HIGH (OB_LOCAL / ACROSS)
#define TALL (ROWS / HIGH)
#define NEAR (KEYS / ACROSS)

// Position of a work-item. Half SIMD units read 16 bytes in one step if pairs at a distance of 1 or
// 2 read the same address: so the lowest bit selects the row, the next one the column.
#if OB_LOCAL % 64 == 0
#define LOCATION_ACROSS(lane) (((lane) >> 1 & 7) | ((lane) >> 2 & 8))
#define LOCATION_DOWN(lane) (((lane) & 1) | ((lane) >> 3 & 2) | ((lane) >> 6 << 2))
#define WORKS 1
#else
#define LOCATION_ACROSS(lane) ((lane) % ACROSS)
#define LOCATION_DOWN(lane) ((lane) / ACROSS)
#define WORKS (OB_LOCAL % ACROSS == 0 || OB_LANE < ACROSS * HIGH)
#endif
#define OB_LOCATION                                     \
  const int across = LOCATION_ACROSS((int)get_local_id(0)); \
  const int down = LOCATION_DOWN((int)get_local_id(0));

#define BARRIER barrier(CLK_LOCAL_MEM_FENCE);

// Arrays indexed in unrolled loops stay in registers. PoCL, which only tests this, has too few
// registers and would compile for minutes.
#ifdef POCL_DEVICE_ADDRESS_BITS
#define UNROLLED _Pragma("nounroll")
#define UNROLLED_TWICE _Pragma("nounroll")
#else
#define UNROLLED _Pragma("unroll")
#define UNROLLED_TWICE _Pragma("unroll 2")
#endif

// Rows of operands along K: DEPTH elements at a time, an odd number of vectors apart, so that
// vectors of eight rows are in different banks.
#define DEPTH (HEAD < CHUNK ? (HEAD + 3) / 4 * 4 : CHUNK)
#define DEPTH_STEP (DEPTH / 4 | 1)
// Scores as a left operand: CHUNK columns at a time. Rows are padded by two vectors of 4 bytes.
#define SCORE_STEP (CHUNK / 4 + 2)
// Right operands of scores: CHUNK rows of COLUMNS elements; a work-item has some of them as X.
#define COLUMNS (HEAD <= 16 ? 16 : HEAD <= 32 ? 32 : 64)
#define WIDE (COLUMNS / ACROSS)
#if HEAD > 32 || ACROSS < 16
typedef V4 X;
#define X_WIDTH 4
#elif HEAD > 16
#if OB_DTYPE_BITS == 64
typedef double2 X;
#else
typedef float2 X;
#endif
#define X_WIDTH 2
#else
typedef V X;
#define X_WIDTH 1
#endif
#define SPAN (WIDE / X_WIDTH)
#define PARTS ((HEAD + COLUMNS - 1) / COLUMNS)

#define ROWS_MEMORY ((ROWS + KEYS) * DEPTH_STEP)
#define SCORES_MEMORY (ROWS * SCORE_STEP + CHUNK * COLUMNS / 4)
#define EXTREMES_MEMORY ((ROWS * ACROSS + 3) / 4)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define OB_MEMORY \
  __local V4 memory[LARGER(LARGER(ROWS_MEMORY, SCORES_MEMORY), EXTREMES_MEMORY)];

// A work-item's part of ROWS rows of HEAD elements: element SUM_COLUMN(n, k) of row SUM_ROW(r) is
// SUM_OF(sums, n, r, k).
#define SUMS(name) X name[PARTS * SPAN][TALL]
#define SUM_ROW(r) ((r) * HIGH + down)
#define SUM_COLUMN(n, k) \
  ((n) / SPAN * COLUMNS + ((n) % SPAN * ACROSS + across) * X_WIDTH + (k))
#define SUM_OF(sums, n, r, k) (((const V *)&(sums)[n][r])[k])
#define FOR_SUMS(n, r)                             \
  UNROLLED for (int n = 0; n < PARTS * SPAN; ++n)  \
  UNROLLED for (int r = 0; r < TALL; ++r)
#define FOR_SCORES(r, j)                     \
  UNROLLED for (int r = 0; r < TALL; ++r)    \
  UNROLLED for (int j = 0; j < NEAR; ++j)
#define SCORE_COLUMN(j) ((j) * ACROSS + across)

// Loads rows `begin` to `begin + height` of a tensor with `rows` rows to local memory: `columns`
// elements from `column` on. Loads are unconditional; elements outside become zero.
#define READ_SHARED(tensor, from, step, rows, begin, height, column, columns, tile, tile_step)   \
  UNROLLED for (int n = 0; n < ((height) * (columns) + OB_LOCAL - 1) / OB_LOCAL; ++n) {          \
    const int location = n * OB_LOCAL + (int)get_local_id(0);                                    \
    const int r = location / (columns), e = location % (columns);                                \
    const V there = tensor##_load((from) + min((begin) + r, (int)(rows) - 1) * (step) +          \
                                  min((column) + e, HEAD - 1));                                  \
    if ((height) * (columns) % OB_LOCAL == 0 || location < (height) * (columns)) {               \
      ((__local V *)(tile))[r * (tile_step) + e] =                                               \
          (begin) + r < (rows) && (column) + e < HEAD ? there : (V)0;                            \
    }                                                                                            \
  }

// s += a @ b.T of tiles in local memory.
static inline void add_rows(const __local V4 *a, const __local V4 *b, const int down,
                            const int across, V s[TALL][NEAR]) {
  a += down * DEPTH_STEP;
  b += across * DEPTH_STEP;
  UNROLLED_TWICE for (int e = 0; e < DEPTH / 4; ++e) {
    V4 x[TALL];
    UNROLLED for (int r = 0; r < TALL; ++r) x[r] = a[r * HIGH * DEPTH_STEP + e];
    UNROLLED for (int j = 0; j < NEAR; ++j) {
      const V4 y = b[j * ACROSS * DEPTH_STEP + e];
      UNROLLED for (int r = 0; r < TALL; ++r) {
        s[r][j] += x[r].x * y.x;
        s[r][j] += x[r].y * y.y;
        s[r][j] += x[r].z * y.z;
        s[r][j] += x[r].w * y.w;
      }
    }
  }
}

// sums += scores @ values of tiles in local memory.
static inline void add_columns(const __local V4 *scores, const __local V4 *values, const int down,
                               const int across, X sums[SPAN][TALL]) {
  const __local X *y = (const __local X *)values + across;
  const int step = COLUMNS / X_WIDTH;
  scores += down * SCORE_STEP;
  UNROLLED_TWICE for (int j = 0; j < CHUNK / 4; ++j) {
    V4 x[TALL];
    UNROLLED for (int r = 0; r < TALL; ++r) x[r] = scores[r * HIGH * SCORE_STEP + j];
    UNROLLED for (int n = 0; n < SPAN; ++n) {
      const X y0 = y[4 * j * step + n * ACROSS], y1 = y[(4 * j + 1) * step + n * ACROSS];
      const X y2 = y[(4 * j + 2) * step + n * ACROSS], y3 = y[(4 * j + 3) * step + n * ACROSS];
      UNROLLED for (int r = 0; r < TALL; ++r) {
        sums[n][r] += x[r].x * y0;
        sums[n][r] += x[r].y * y1;
        sums[n][r] += x[r].z * y2;
        sums[n][r] += x[r].w * y3;
      }
    }
  }
}

// s = a @ b.T of ROWS rows of a tensor and KEYS rows of another.
#define MULTIPLY_ROWS(s, a, a_from, a_step, a_rows, b, b_from, b_step, b_rows)                  \
  FOR_SCORES(r, j) s[r][j] = 0;                                                                 \
  for (int column = 0; column < HEAD; column += DEPTH) {                                        \
    BARRIER                                                                                     \
    READ_SHARED(a, a_from, a_step, a_rows, 0, ROWS, column, DEPTH, memory, 4 * DEPTH_STEP)       \
    READ_SHARED(b, b_from, b_step, b_rows, 0, KEYS, column, DEPTH, memory + ROWS * DEPTH_STEP,  \
                4 * DEPTH_STEP)                                                                 \
    BARRIER                                                                                     \
    if (WORKS) add_rows(memory, memory + ROWS * DEPTH_STEP, down, across, s);                   \
  }

// sums += s @ b: scores times `rows` rows of a tensor.
#define ADD_SCORES(sums, s, b, from, step, rows)                                                \
  UNROLLED for (int part = 0; part < KEYS / CHUNK; ++part) {                                    \
    UNROLLED for (int across_part = 0; across_part < PARTS; ++across_part) {                    \
      BARRIER                                                                                   \
      if (WORKS && across_part == 0) {                                                          \
        UNROLLED for (int r = 0; r < TALL; ++r) {                                               \
          UNROLLED for (int j = 0; j < CHUNK / ACROSS; ++j) {                                   \
            ((__local V *)memory)[SUM_ROW(r) * 4 * SCORE_STEP + SCORE_COLUMN(j)] =              \
                s[r][part * (CHUNK / ACROSS) + j];                                              \
          }                                                                                     \
        }                                                                                       \
      }                                                                                         \
      READ_SHARED(b, from, step, rows, part * CHUNK, CHUNK, across_part * COLUMNS, COLUMNS,     \
                  memory + ROWS * SCORE_STEP, COLUMNS)                                          \
      BARRIER                                                                                   \
      if (WORKS) {                                                                              \
        add_columns(memory, memory + ROWS * SCORE_STEP, down, across,                           \
                    sums + across_part * SPAN);                                                 \
      }                                                                                         \
    }                                                                                           \
  }

// Combines TALL values of all work-items of a row by `both`.
#if ACROSS == 1
#define COMBINE_ROWS(values, both)
#else
#define COMBINE_ROWS(values, both)                                                              \
  BARRIER                                                                                       \
  if (WORKS) {                                                                                  \
    UNROLLED for (int r = 0; r < TALL; ++r) {                                                   \
      ((__local V *)memory)[SUM_ROW(r) * ACROSS + across] = values[r];                          \
    }                                                                                           \
  }                                                                                             \
  BARRIER                                                                                       \
  if (WORKS) {                                                                                  \
    UNROLLED for (int r = 0; r < TALL; ++r) {                                                   \
      const __local V4 *each = memory + SUM_ROW(r) * (ACROSS / 4);                              \
      V4 all = each[0];                                                                         \
      UNROLLED for (int n = 1; n < ACROSS / 4; ++n) all = both(all, each[n]);                   \
      values[r] = both(both(all.x, all.y), both(all.z, all.w));                                 \
    }                                                                                           \
  }
#endif
#define BOTH_ADDED(a, b) ((a) + (b))

// Adds KEYS scores of each row to its online softmax, like `soften` on CPUs. `total` covers a
// work-item's own scores; COMBINE_ROWS sums them at the end.
#define SOFTEN(s, largest, total, sums)                                        \
  {                                                                            \
    V most[TALL];                                                              \
    UNROLLED for (int r = 0; r < TALL; ++r) most[r] = largest[r];              \
    FOR_SCORES(r, j) most[r] = fmax(most[r], s[r][j]);                         \
    COMBINE_ROWS(most, fmax)                                                   \
    UNROLLED for (int r = 0; r < TALL; ++r) {                                  \
      const V shift = most[r] == NEVER ? (V)0 : most[r];                       \
      const V rescale = exp(largest[r] - shift);                               \
      largest[r] = most[r];                                                    \
      total[r] *= rescale;                                                     \
      UNROLLED for (int j = 0; j < NEAR; ++j) {                                \
        s[r][j] = exp(s[r][j] - shift);                                        \
        total[r] += s[r][j];                                                   \
      }                                                                        \
      UNROLLED for (int n = 0; n < PARTS * SPAN; ++n) sums[n][r] *= rescale;   \
    }                                                                          \
  }

#endif

#if HAS_grad_out
// The sum of each row of gradient * result. The scores' gradient is the probabilities' gradient
// minus this.

#define OFFSET_IN(tensor, item)                                 \
  ((item) / queries / heads * tensor##_layout.stride[0] +       \
   (item) / queries % heads * tensor##_layout.stride[1] +       \
   (item) % queries * tensor##_layout.stride[2])
#ifdef STRIDED_GRADIENT  // grad_out_layout exists
#define OFFSET_IN_GRADIENT(item) OFFSET_IN(grad_out, item)
#define GRADIENT_STEP grad_out_layout.stride[3]
#else
#define OFFSET_IN_GRADIENT(item) ((item) * HEAD)
#define GRADIENT_STEP 1
#endif
#define ADD_DELTA(sum, gradient, from, e)                  \
  sum += (V)grad_out_load((gradient) + (e) * GRADIENT_STEP) * \
         (V)out_load((from) + (e) * out_layout.stride[3]);
#if HAS_grad_logsumexp
#define DELTA(sum, item) ((sum) - (V)grad_logsumexp_load(item) / LN2)
#else
#define DELTA(sum, item) (sum)
#endif

#if OB_LOCAL == 1

__kernel void delta_of_rows(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(item) {
    const ob_index from = OFFSET_IN(out, item), gradient = OFFSET_IN_GRADIENT(item);
    V sum = 0;
    int e = 0;
    if (out_layout.stride[3] == 1 && GRADIENT_STEP == 1) {
      T sums = (T)(0);
      for (; e + W <= HEAD; e += W) {
        sums += grad_out_load_vector(gradient + e) * out_load_vector(from + e);
      }
      sum = OB_SUM(sums);
    }
    for (; e < HEAD; ++e) ADD_DELTA(sum, gradient, from, e)
    delta_store(item, DELTA(sum, item));
  }
}

#else

__kernel void delta_of_rows(OB_PARAMETERS) {
  OB_BEGIN
  OB_MEMORY
  OB_LOCATION
  OB_FOR_GROUPS(group) {
    V sums[TALL];
    UNROLLED for (int r = 0; r < TALL; ++r) {
      const ob_index item = min(group * ROWS + SUM_ROW(r), all_rows - 1);
      const ob_index from = OFFSET_IN(out, item), gradient = OFFSET_IN_GRADIENT(item);
      sums[r] = 0;
      for (int e = across; e < HEAD; e += ACROSS) ADD_DELTA(sums[r], gradient, from, e)
    }
    COMBINE_ROWS(sums, BOTH_ADDED)
    UNROLLED for (int r = 0; r < TALL; ++r) {
      const ob_index item = group * ROWS + SUM_ROW(r);
      if (WORKS && across == 0 && item < all_rows) delta_store(item, DELTA(sums[r], item));
    }
  }
}

#endif

#endif
