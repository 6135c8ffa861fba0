// out = alpha * left @ right + beta * added, batched, with any strides.
//
// The kernel generator defines: X, the type in memory, and LOAD, STORE, LOADV, STOREV for its
// scalars and vectors; S, the type of values, V, vectors of W of them, VLOAD and VSTORE; I, the
// type of indices; ROWS x (VECTORS * W), the register tile of a work-item; PANELS, the tiles of a
// work-item; SLICE, the K packed by a work-item; and IN_PLACE, if tiles may read operands that are
// not packed, whose elements have the type of values.
//
// Two-level indices: index i along K has the offset (i / inner) * outer stride + (i % inner) *
// stride, and the same for columns of `out`. So a batch can be part of a dimension.

#define COLUMNS (VECTORS * W)

typedef struct {
  I batch, row, column, outer;  // strides; `row` of the right operand is along K
} Strides;

typedef struct {
  I batches, rows, columns, depth;
  I inner_depth, inner_columns;
  Strides left, right, out, added;
} Layout;

// Strides of an operand that tiles read: of batches, of panels (as high or wide as a tile), of the
// lines of a panel, and along K. The last panel begins `early` lines earlier, to end with the
// operand. Packed panels are padded with zeros instead.
typedef struct {
  I batch, panel, line, step, early;
} PanelStrides;

#ifdef IN_PLACE
#define LINE(strides) (strides).line
#define STEP(strides, width) (strides).step
#define EARLY(strides) (strides).early
#else
#define LINE(strides) 1
#define STEP(strides, width) (width)
#define EARLY(strides) 0
#endif

// W elements of each of four lines, at `stride`, as W groups of four every `width` elements.
static inline void pack_four(const __global X *source, I stride, __global S *to, const int width) {
  const V a = LOADV(source, 0), b = LOADV(source, stride);
  const V c = LOADV(source, 2 * stride), d = LOADV(source, 3 * stride);
  V mixed[4], all[4];
  mixed[0].even = a.lo, mixed[0].odd = c.lo, mixed[1].even = a.hi, mixed[1].odd = c.hi;
  mixed[2].even = b.lo, mixed[2].odd = d.lo, mixed[3].even = b.hi, mixed[3].odd = d.hi;
  all[0].even = mixed[0].lo, all[0].odd = mixed[2].lo;
  all[1].even = mixed[0].hi, all[1].odd = mixed[2].hi;
  all[2].even = mixed[1].lo, all[2].odd = mixed[3].lo;
  all[3].even = mixed[1].hi, all[3].odd = mixed[3].hi;
  S lanes[4 * W];
#pragma unroll
  for (int i = 0; i < 4; ++i) VSTORE(all[i], i, lanes);
#pragma unroll
  for (int i = 0; i < W; ++i) vstore4(vload4(i, lanes), 0, to + i * width);
}

// Packs panels of `width` lines, contiguous per K and padded with zeros, in the order of the tiles.
static inline void pack(const __global X *source, __global S *packed, I lines, I line_stride,
                        I depth, I inner, I stride, I outer, I first, const int width) {
  const I last = min(first + (I)SLICE, depth);
  packed += first * width;
  if (line_stride == 1) {
    I low = first % inner;
    const __global X *from = source + first / inner * outer + low * stride;
    for (I k = first; k < last; ++k, packed += width) {
      int i = 0;
      if (lines >= width) {
        for (; i + W <= width; i += W) VSTORE(LOADV(from, i), 0, packed + i);
#pragma unroll
        for (int j = 0; j < width % W; ++j) packed[i + j] = LOAD(from, i + j);
      } else {
        for (; i < lines; ++i) packed[i] = LOAD(from, i);
        for (; i < width; ++i) packed[i] = 0;
      }
      from += stride;
      if (++low == inner) {
        low = 0;
        from += outer - inner * stride;
      }
    }
    return;
  }
  int i = 0;
  if (stride == 1 && inner == depth) {
    for (; i + 4 <= width && i + 4 <= lines; i += 4) {
      const __global X *from = source + i * line_stride;
      __global S *to = packed + i;
      I k = first;
      for (; k + W <= last; k += W, to += W * width) pack_four(from + k, line_stride, to, width);
      for (; k < last; ++k, to += width) {
        for (int j = 0; j < 4; ++j) to[j] = LOAD(from, j * line_stride + k);
      }
    }
  }
  for (; i < width; ++i) {
    const __global X *from = source + i * line_stride;
    __global S *to = packed + i;
    if (i >= lines) {
      for (I k = first; k < last; ++k, to += width) *to = 0;
    } else if (inner == depth) {
      for (I k = first; k < last; ++k, to += width) *to = LOAD(from, k * stride);
    } else {
      I high = first / inner * outer, low = first % inner;
      for (I k = first; k < last; ++k, to += width) {
        *to = LOAD(from, high + low * stride);
        if (++low == inner) {
          low = 0;
          high += outer;
        }
      }
    }
  }
}

// Packs the lines of an operand, rows of the left or columns of the right one, in panels of WIDTH.
#define PACK(name, side, lines, line_stride, stride, WIDTH)                                    \
  __kernel void name(OB_POINTER(X, source), OB_POINTER(S, packed), const Layout l,             \
                     const I items) {                                                          \
    OB_BIND(X, source) OB_BIND(S, packed)                                                      \
    ITEM                                                                                       \
    const I slices = (l.depth + SLICE - 1) / SLICE, panels = (l.lines + WIDTH - 1) / WIDTH;    \
    const I panel = item / slices % panels, batch = item / slices / panels;                    \
    pack(source + batch * l.side.batch + panel * WIDTH * l.side.line_stride,                   \
         packed + (batch * panels + panel) * l.depth * WIDTH, l.lines - panel * WIDTH,         \
         l.side.line_stride, l.depth, l.inner_depth, l.side.stride, l.side.outer,              \
         item % slices * SLICE, WIDTH);                                                        \
  }
PACK(pack_left, left, rows, row, column, ROWS)
PACK(pack_right, right, columns, column, row, COLUMNS)

static inline I column_offset(I column, I inner, const Strides strides) {
  return column / inner * strides.outer + column % inner * strides.column;
}

// alpha * sum + beta * added; `added` is not read without `adds`.
static inline S combine(S sum, const __global X *added, I at, S alpha, S beta, int adds) {
  return adds ? alpha * sum + beta * LOAD(added, at) : alpha * sum;
}

// Tiles of `columns` columns from column `begin` on, the first in `right`.
__kernel void tiles(OB_POINTER(S, left), OB_POINTER(S, right), OB_POINTER(X, out),
                    OB_POINTER(X, added), const Layout l, const S alpha, const S beta,
                    const int adds, const I begin, const I columns, const PanelStrides left_at,
                    const PanelStrides right_at, const I items) {
  OB_BIND(S, left) OB_BIND(S, right) OB_BIND(X, out) OB_BIND(X, added)
  ITEM
  const I row_panels = (l.rows + ROWS - 1) / ROWS;
  const I column_panels = (columns + COLUMNS - 1) / COLUMNS;
  const I groups = (row_panels + PANELS - 1) / PANELS;
  const I column_panel = item % column_panels;
  const I group = item / column_panels % groups;
  const I batch = item / column_panels / groups;
  const I last = min((group + 1) * PANELS, row_panels);
  // Columns that the previous panel also has and stores.
  const int known = column_panel + 1 == column_panels ? (int)EARLY(right_at) : 0;
  const I column = begin + column_panel * COLUMNS - known;
  const int width = (int)min((I)COLUMNS, begin + columns - column);
  I out_at[COLUMNS], added_at[COLUMNS];
  for (int c = 0; c < COLUMNS; ++c) {
    const I at = min(column + c, begin + columns - 1);
    out_at[c] = batch * l.out.batch + column_offset(at, l.inner_columns, l.out);
    added_at[c] = batch * l.added.batch + column_offset(at, l.inner_columns, l.added);
  }
  int dense[VECTORS];
  for (int v = 0; v < VECTORS; ++v) {
    const I first = column + v * W;
    dense[v] = v * W >= known && v * W + W <= width && l.out.column == 1 &&
               first / l.inner_columns == (first + W - 1) / l.inner_columns;
  }
  for (I panel = group * PANELS; panel < last; ++panel) {
    const int above = panel + 1 == row_panels ? (int)EARLY(left_at) : 0;
    const __global S *b = right + batch * right_at.batch + column_panel * right_at.panel - known;
    // An address for every fourth row: instructions add small multiples of a stride.
    const size_t line = LINE(left_at);
    const __global S *a[(ROWS + 3) / 4];
#pragma unroll
    for (int r = 0; r < ROWS; r += 4) {
      a[r / 4] = left + batch * left_at.batch + panel * left_at.panel + r * line - above * line;
    }
    V sums[ROWS][VECTORS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) sums[r][v] = (V)(0);
    for (I k = 0; k < l.depth; ++k) {
      V x[VECTORS];
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) x[v] = VLOAD(v, b);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const V y = (V)(a[r / 4][r % 4 * line]);
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) sums[r][v] = y * x[v] + sums[r][v];
      }
#pragma unroll
      for (int r = 0; r < ROWS; r += 4) a[r / 4] += STEP(left_at, ROWS);
      b += STEP(right_at, COLUMNS);
    }
    // Through memory: sums are indexed by constants only and stay in registers.
    S tile[ROWS * COLUMNS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) VSTORE(sums[r][v], r * VECTORS + v, tile);
    const int height = (int)min((I)ROWS, l.rows - panel * ROWS);
    for (int r = 0; r < height; ++r) {
      const I row = panel * ROWS + r;
      const S *sum = tile + (above + r) * COLUMNS;
      const __global X *addends = added + row * l.added.row;
      __global X *results = out + row * l.out.row;
      for (int v = 0; v < VECTORS; ++v) {
        const int c = v * W;
        if (dense[v] && (!adds || l.added.column <= 1)) {
          V value = (V)(alpha) * VLOAD(v, sum);
          if (adds && l.added.column == 0) value += (V)(beta * LOAD(addends, added_at[c]));
          if (adds && l.added.column == 1) value += (V)(beta) * LOADV(addends, added_at[c]);
          STOREV(results, out_at[c], value);
          continue;
        }
        for (int i = max(c, known); i < min(c + W, width); ++i) {
          const S value = combine(sum[i], addends, added_at[i], alpha, beta, adds);
          STORE(results, out_at[i], value);
        }
      }
    }
  }
}

// For products too small for packing: W adjacent columns of a row, if columns of `right` are
// adjacent in memory.
__kernel void row_vectors(OB_POINTER(X, left), OB_POINTER(X, right), OB_POINTER(X, out),
                          OB_POINTER(X, added), const Layout l, const S alpha, const S beta,
                          const int adds, const I items) {
  OB_BIND(X, left) OB_BIND(X, right) OB_BIND(X, out) OB_BIND(X, added)
  ITEM
  const I groups = (l.columns + W - 1) / W;
  const I column = item % groups * W;
  const I row = item / groups % l.rows;
  const I batch = item / groups / l.rows;
  const __global X *a = left + batch * l.left.batch + row * l.left.row;
  const __global X *b = right + batch * l.right.batch + column;
  const int width = (int)min((I)W, l.columns - column);
  S sums[W];
  if (width == W) {
    V sum = (V)(0);
    for (I k = 0; k < l.depth; ++k) {
      sum += (V)(LOAD(a, k * l.left.column)) * LOADV(b, k * l.right.row);
    }
    VSTORE(sum, 0, sums);
  } else {
    for (int c = 0; c < width; ++c) {
      S sum = 0;
      for (I k = 0; k < l.depth; ++k) {
        sum += LOAD(a, k * l.left.column) * LOAD(b, k * l.right.row + c);
      }
      sums[c] = sum;
    }
  }
  for (int c = 0; c < width; ++c) {
    const S value = combine(sums[c], added,
                            batch * l.added.batch + row * l.added.row +
                                (column + c) * l.added.column,
                            alpha, beta, adds);
    STORE(out, batch * l.out.batch + row * l.out.row + (column + c) * l.out.column, value);
  }
}

// The sum of products from `k` to `end` along K; in vectors if both operands are dense there.
static inline S dot(const __global X *a, const I a_step, const __global X *b, const I b_step, I k,
                    const I end) {
  S sum = 0;
  if (a_step == 1 && b_step == 1) {
    V partial = (V)(0);
    for (; k + W <= end; k += W) partial += LOADV(a, k) * LOADV(b, k);
    S parts[W];
    VSTORE(partial, 0, parts);
    for (int i = 0; i < W; ++i) sum += parts[i];
  }
  for (; k < end; ++k) sum += LOAD(a, k * a_step) * LOAD(b, k * b_step);
  return sum;
}

// One result per work-item, for any strides.
__kernel void single(OB_POINTER(X, left), OB_POINTER(X, right), OB_POINTER(X, out),
                     OB_POINTER(X, added), const Layout l, const S alpha, const S beta,
                     const int adds, const I items) {
  OB_BIND(X, left) OB_BIND(X, right) OB_BIND(X, out) OB_BIND(X, added)
  ITEM
  const I column = item % l.columns;
  const I row = item / l.columns % l.rows;
  const I batch = item / l.columns / l.rows;
  const __global X *a = left + batch * l.left.batch + row * l.left.row;
  const __global X *b = right + batch * l.right.batch + column * l.right.column;
  const S sum = dot(a, l.left.column, b, l.right.row, 0, l.depth);
  const S value = combine(sum, added,
                          batch * l.added.batch + row * l.added.row + column * l.added.column,
                          alpha, beta, adds);
  STORE(out, batch * l.out.batch + row * l.out.row + column * l.out.column, value);
}

// Sums of `depth` products in slices, for a single long row and column; `partials` has one element
// per slice, of the type of values.
__kernel void slices(OB_POINTER(X, left), OB_POINTER(X, right), OB_POINTER(S, partials),
                     const Layout l, const I slice, const I items) {
  OB_BIND(X, left) OB_BIND(X, right) OB_BIND(S, partials)
  ITEM
  partials[item] = dot(left, l.left.column, right, l.right.row, item * slice,
                       min((item + 1) * slice, l.depth));
}

__kernel void sum_slices(OB_POINTER(S, partials), OB_POINTER(X, out), const I count,
                         const I items) {
  OB_BIND(S, partials) OB_BIND(X, out)
  if (get_global_id(0) >= items) return;
  S sum = 0;
  for (I i = 0; i < count; ++i) sum += partials[i];
  STORE(out, 0, sum);
}
