// Blocks of attention: what its forward and its backward share.
//
// HEAD is the size of a head. A group works on a block of ROWS rows. A processor, whose groups have
// one work item, goes through blocks of KEYS keys and multiplies tiles with vectors of W values in
// private memory; on a GPU each work item of a group has a row of its own.

#define PADDED ((HEAD + 2 * W - 1) / (2 * W) * (2 * W))
#define NEVER ((V)(-INFINITY))

// The factor of the scores: `scale`, or the usual one.
#define FACTOR (has_scale ? scale_value : (R)1 / sqrt((R)HEAD))

#if HAS_attn_mask
#define MASK(b, h, i, j)                                                                   \
  (mask_boolean ? (attn_mask_load(MASK_PLACE(b, h, i, j)) != 0 ? (V)0 : NEVER)             \
                : (V)attn_mask_load(MASK_PLACE(b, h, i, j)))
#define MASK_PLACE(b, h, i, j) \
  ((b) * mask_batch + (h) * mask_head + (i) * mask_query + (j) * mask_key)
#else
#define MASK(b, h, i, j) ((V)0)
#endif

#define KEYS 64

#if OB_LOCAL == 1

#if W == 1
#define LOAD_TILE(p) (*(p))
#define STORE_TILE(v, p) (*(p) = (v))
#elif W == 2
#define LOAD_TILE(p) vload2(0, p)
#define STORE_TILE(v, p) vstore2(v, 0, p)
#elif W == 4
#define LOAD_TILE(p) vload4(0, p)
#define STORE_TILE(v, p) vstore4(v, 0, p)
#elif W == 8
#define LOAD_TILE(p) vload8(0, p)
#define STORE_TILE(v, p) vstore8(v, 0, p)
#else
#define LOAD_TILE(p) vload16(0, p)
#define STORE_TILE(v, p) vstore16(v, 0, p)
#endif

// c (rows x columns) += a @ b, row-major tiles; a has any strides, rows is a multiple of 4 and
// columns one of two vectors.
static inline void add_product(const V *a, const int a_row, const int a_depth, const V *b,
                               const int depth, const int b_row, V *c, const int c_row,
                               const int rows, const int columns) {
  for (int r = 0; r < rows; r += 4) {
    for (int n = 0; n < columns; n += 2 * W) {
      V *to = c + r * c_row + n;
      const V *x = a + r * a_row;
      const V *y = b + n;
      T s00 = LOAD_TILE(to), s01 = LOAD_TILE(to + W);
      T s10 = LOAD_TILE(to + c_row), s11 = LOAD_TILE(to + c_row + W);
      T s20 = LOAD_TILE(to + 2 * c_row), s21 = LOAD_TILE(to + 2 * c_row + W);
      T s30 = LOAD_TILE(to + 3 * c_row), s31 = LOAD_TILE(to + 3 * c_row + W);
      for (int k = 0; k < depth; ++k, x += a_depth, y += b_row) {
        const T y0 = LOAD_TILE(y), y1 = LOAD_TILE(y + W);
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
      STORE_TILE(s00, to);
      STORE_TILE(s01, to + W);
      STORE_TILE(s10, to + c_row);
      STORE_TILE(s11, to + c_row + W);
      STORE_TILE(s20, to + 2 * c_row);
      STORE_TILE(s21, to + 2 * c_row + W);
      STORE_TILE(s30, to + 3 * c_row);
      STORE_TILE(s31, to + 3 * c_row + W);
    }
  }
}

static inline void clear(V *tile, const int size) {
  for (int i = 0; i < size; i += W) STORE_TILE((T)(0), tile + i);
}

// `rows` rows of a head into a tile of `height` rows of PADDED values, and of its transpose.
// The rest is zero.
#define READ_TILE(tensor, from, step, rows, height, tile)                    \
  for (int r = 0; r < (height); ++r) {                                       \
    V *to = (tile) + r * PADDED;                                             \
    int e = 0;                                                               \
    if (r < (rows)) {                                                        \
      const ob_index at = (from) + r * (step);                               \
      for (; e + W <= HEAD; e += W) STORE_TILE(tensor##_load_vector(at + e), to + e); \
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

// Scaled scores with the masks of keys from `key` on; those that do not count are NEVER.
#define FINISH_SCORES(scores, b, h, row, height, key, width)                              \
  for (int r = 0; r < ROWS; ++r) {                                                        \
    V *s = (scores) + r * KEYS;                                                           \
    for (int j = 0; j < KEYS; j += W) STORE_TILE(LOAD_TILE(s + j) * (T)(factor), s + j);  \
    if (HAS_attn_mask && r < (height)) {                                                  \
      for (int j = 0; j < (width); ++j) s[j] += MASK(b, h, (row) + r, (key) + j);         \
    }                                                                                     \
    const ob_index visible = CAUSAL ? min((ob_index)(width), (row) + r + 1 - (key))       \
                                    : (ob_index)(width);                                  \
    for (int j = max(visible, (ob_index)0); j < KEYS; ++j) s[j] = NEVER;                  \
  }

// Takes KEYS scores of a row into its softmax, which is kept as a running maximum and sum: scores
// become probabilities beside the maximum so far, and what was added before is rescaled to it.
static inline void soften(V *scores, V *largest, V *total, V *sum) {
  T most = LOAD_TILE(scores);
  for (int j = W; j < KEYS; j += W) most = fmax(most, LOAD_TILE(scores + j));
  const V next = fmax(*largest, OB_MAX(most));
  const V shift = next == NEVER ? (V)0 : next;
  const V rescale = exp(*largest - shift);
  T added = (T)(0);
  for (int j = 0; j < KEYS; j += W) {
    const T p = ob_exp(LOAD_TILE(scores + j) - (T)(shift));
    added += p;
    STORE_TILE(p, scores + j);
  }
  *total = *total * rescale + OB_SUM(added);
  *largest = next;
  if (rescale == (V)1) return;
  for (int e = 0; e < PADDED; e += W) {
    STORE_TILE(LOAD_TILE(sum + e) * (T)(rescale), sum + e);
  }
}

#endif
