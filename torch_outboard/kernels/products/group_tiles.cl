// out = alpha * left @ right + beta * added, batched, with any strides: the GPU form of
// matrix_product.cl, with tiles of the result shared by work-groups.
//
// A work-group loops over slices of K. Its work-items load the next slice of both operands to
// registers, adjacent elements by adjacent work-items, while they multiply the current one in local
// memory. Operands are not packed, and a group reads each element once.
//
// The kernel generator defines X, S, V, W, I, LOAD ... as for matrix_product.cl, and
//   ACROSS, DOWN                  columns and rows of work-items in a group
//   ROW_VECTORS, COLUMN_VECTORS   vectors of rows and of columns summed by a work-item
//   DEPTH                         K of a slice
//
// Split K: if the result has few tiles, several groups compute parts of K of one tile. They write
// their sums to `partials`, which `add_parts` sums in the order of K.
//
// IMAGE: the right operand is made of patches of an image, as in a convolution or a gradient. Two
// Axes describe its K and its columns.

// With MATRIX_UNITS, matrix_unit_tiles.cl has another group_tiles.

#define ITEMS (ACROSS * DOWN)
// NVIDIA's compiler ignores the limit of registers if it knows the work-group size.
#ifdef OB_NVIDIA
#define GROUP_KERNEL __kernel
#else
#define GROUP_KERNEL __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
#endif
#define ROWS (ROW_VECTORS * W)
#define TILE_ROWS (DOWN * ROWS)
#define TILE_COLUMNS (ACROSS * COLUMN_VECTORS * W)
// Lines of a slice in local memory, along K, in vectors. One vector of padding, so that work-items
// that write along K access different banks.
#define LEFT_LINE (DOWN * ROW_VECTORS + 1)
#define RIGHT_LINE (ACROSS * COLUMN_VECTORS + 1)
// Elements of a slice loaded by a work-item.
#define LEFT_LOADS (TILE_ROWS * DEPTH / ITEMS)
#define RIGHT_LOADS (TILE_COLUMNS * DEPTH / ITEMS)

typedef struct {
  I batch, row, column;  // strides; `row` of the right operand is along K
} Strides;

typedef struct {
  I batches, rows, columns, depth;
  Strides left, right, out, added;
  I parts, part;          // number of parts of K, and K of a part
  I left_access, right_access;  // load order of work-items
} Layout;

// Load order of adjacent work-items: flags for adjacent elements along K, and for 16 bytes at once.
#define ALONG_DEPTH 1
#define VECTORS 2

// For matrix units the generator defines both: unreachable code would also need registers.
#ifndef LEFT_ACCESS
#define LEFT_ACCESS l.left_access
#define RIGHT_ACCESS l.right_access
#endif

// Elements of a slice that a work-item loads: the first one, and the distances to the next.
typedef struct {
  int line, depth, lines, depths;
} Walk;

static inline Walk walk_of(I access, int item, int tile_lines) {
  const int along = access & ALONG_DEPTH;
  Walk walk;
  walk.line = along ? item / DEPTH : item % tile_lines;
  walk.depth = along ? item % DEPTH : item / tile_lines;
  walk.lines = along ? ITEMS / DEPTH : 0;
  walk.depths = along ? 0 : ITEMS / tile_lines;
  return walk;
}

#ifdef IMAGE
// An index along K or the columns has four digits: a channel or an image of a batch, and three
// coordinates of positions or kernel elements. The first varies slowest or fastest.
typedef struct {
  int size[4];
  int other[4];           // strides in the left operand, along K, or in the result
  int image;              // stride of the first digit in the image
  int step[3], shift[3];  // of the others: added to an image coordinate
  int fastest;            // 1 if the first digit varies fastest
} Axes;

typedef struct {
  Axes depth, columns;
  int size[3], stride[3];  // of the image
} Image;

// Indices along K whose offsets are computed at once, by some work-items, so not for each slice.
// Double-buffered: one half is read while the other is written.
#define CHUNK (DEPTH > 16 ? 64 : 32)
#define KEPT (2 * CHUNK)
// Added to a coordinate, it leads out of every image.
#define OUTSIDE (-(1 << 30))

// Offset in the image and its coordinates for an index; `other`: offset in the left operand or the
// result. An index beyond `count` leads outside.
static inline int4 image_location(I number, I count, const Axes *axes, const Image *image,
                                  int *other) {
  *other = 0;
  if (number >= count) return (int4)(0, OUTSIDE, 0, 0);
  int rest = (int)number;
  int digits[4];
  if (axes->fastest) {
    digits[0] = rest % axes->size[0];
    rest /= axes->size[0];
  }
  digits[3] = rest % axes->size[3];
  rest /= axes->size[3];
  digits[2] = rest % axes->size[2];
  rest /= axes->size[2];
  digits[1] = axes->fastest ? rest : rest % axes->size[1];
  if (!axes->fastest) digits[0] = rest / axes->size[1];
  int location[3];
  int offset = digits[0] * axes->image;
  *other = digits[0] * axes->other[0];
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    location[d] = digits[d + 1] * axes->step[d] + axes->shift[d];
    offset += location[d] * image->stride[d];
    *other += digits[d + 1] * axes->other[d + 1];
  }
  return (int4)(offset, location[0], location[1], location[2]);
}

#define INSIDE(location, size)                                                            \
  ((uint)(location).y < (uint)(size)[0] && (uint)(location).z < (uint)(size)[1] &&        \
   (uint)(location).w < (uint)(size)[2])
#define IMAGE_PARAMETERS const Image image,
#else
#define IMAGE_PARAMETERS
#endif

// Parameters of all kernels; `count`: number of groups or work-items with work.
#define PARAMETERS                                                                              \
  OB_POINTER(X, left), OB_POINTER(X, right), OB_POINTER(X, out), OB_POINTER(X, added),          \
      OB_POINTER(S, partials), const Layout l, const S alpha, const S beta, const int adds,     \
      IMAGE_PARAMETERS const I count
#define BEGIN                                                                               \
  OB_BIND(X, left) OB_BIND(X, right) OB_BIND(X, out) OB_BIND(X, added) OB_BIND(S, partials) \
  const Layout layout = l;

// Stores results of `row` from `column` on, at at[W]; -1 for a missing one.
static inline void store_sums(V sum, __global X *out, const __global X *added, const I *at,
                              I batch, I row, I column, const Layout *l, const S alpha,
                              const S beta, const int adds) {
  int dense = at[0] >= 0;
#pragma unroll
  for (int i = 1; i < W; ++i) dense &= at[i] == at[0] + i;
  V value = (V)(alpha) * sum;
  if (adds) {
    const I from = batch * l->added.batch + row * l->added.row;
    S addends[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      addends[i] = 0;
      if (at[i] >= 0) addends[i] = LOAD(added, from + (column + i) * l->added.column);
    }
    value += (V)(beta) * VLOAD(0, addends);
  }
  if (dense) {
    STOREV(out, at[0], value);
  } else {
    S lanes[W];
    VSTORE(value, 0, lanes);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      if (at[i] >= 0) STORE(out, at[i], lanes[i]);
    }
  }
}

// Stores W results, with offsets OFFSET(i) in a row.
#define STORE_RESULTS(sum, OFFSET)                                                              \
  {                                                                                             \
    I at[W];                                                                                    \
    _Pragma("unroll") for (int i = 0; i < W; ++i) {                                             \
      at[i] = column + i < l.columns ? batch * l.out.batch + row * l.out.row + OFFSET(i) : -1;  \
    }                                                                                           \
    store_sums(sum, out, added, at, batch, row, column, &layout, alpha, beta, adds);            \
  }

// Vectors of a row of `partials`.
static inline I row_vectors(const Layout *l) { return (l->columns + W - 1) / W; }

// Stores W results of a tile, from its column `in_tile` on, or their part of the sums.
#ifdef IMAGE
#define OFFSET_IN_ROW(i) out_offsets[in_tile + (i)]
#else
#define OFFSET_IN_ROW(i) ((column + (i)) * l.out.column)
#endif
#define STORE_IN_TILE(sum)                                                                \
  if (l.parts > 1) {                                                                      \
    const I of_part = (part * l.batches + batch) * l.rows + row;                          \
    VSTORE(sum, of_part * row_vectors(&layout) + column / W, partials);                   \
  } else {                                                                                \
    STORE_RESULTS(sum, OFFSET_IN_ROW)                                                     \
  }

// The work-group's tile: rows from `first_row` and columns from `first_column` on, of a part of K.
#define TILE_OF_GROUP(tile_rows, tile_columns)                                \
  LOCATIONS_OF_TILE(tile_columns)                                             \
  const int item = get_local_id(0);                                           \
  I rest = get_group_id(0);                                                   \
  const I column_tiles = (l.columns + (tile_columns) - 1) / (tile_columns);   \
  const I first_column = rest % column_tiles * (tile_columns);                \
  rest /= column_tiles;                                                       \
  const I row_tiles = (l.rows + (tile_rows) - 1) / (tile_rows);               \
  const I first_row = rest % row_tiles * (tile_rows);                         \
  rest /= row_tiles;                                                          \
  const I part = rest % l.parts;                                              \
  const I batch = rest / l.parts;                                             \
  const I begin = part * l.part;                                              \
  const I depth = min(l.depth - begin, l.part);

#ifdef IMAGE
#define LOCATIONS_OF_TILE(tile_columns)             \
  __local int4 column_locations[tile_columns];      \
  __local int out_offsets[tile_columns];            \
  __local int4 depth_locations[KEPT];               \
  __local int left_offsets[KEPT];                   \
  const Image source = image;
// Locations and offsets of all columns of the tile, and of the first indices along K.
#define FIND_LOCATIONS(tile_columns, items)                                                   \
  for (int c = item; c < (tile_columns); c += (items)) {                                      \
    int offset;                                                                               \
    column_locations[c] =                                                                     \
        image_location(first_column + c, l.columns, &source.columns, &source, &offset);       \
    out_offsets[c] = offset;                                                                  \
  }                                                                                           \
  for (int k = item; k < KEPT; k += (items)) {                                                \
    int offset;                                                                               \
    depth_locations[k] = image_location(begin + k, l.depth, &source.depth, &source, &offset); \
    left_offsets[k] = offset;                                                                 \
  }                                                                                           \
  barrier(CLK_LOCAL_MEM_FENCE);
#else
#define LOCATIONS_OF_TILE(tile_columns)
#endif

#ifndef MATRIX_UNITS
GROUP_KERNEL void group_tiles(PARAMETERS) {
  BEGIN
  __local V left_slices[2][DEPTH * LEFT_LINE];
  __local V right_slices[2][DEPTH * RIGHT_LINE];
  TILE_OF_GROUP(TILE_ROWS, TILE_COLUMNS)

  // 32 consecutive work-items have 4 x 8 positions: their reads of local memory are in one line of
  // banks, or equal.
#if ACROSS % 8 == 0 && DOWN % 4 == 0
  const int across = item % 8 + item / 32 % (ACROSS / 8) * 8;
  const int down = item / 8 % 4 + item / 32 / (ACROSS / 8) * 4;
#else
  const int across = item % ACROSS;
  const int down = item / ACROSS;
#endif

  const Walk left_walk = walk_of(LEFT_ACCESS, item, TILE_ROWS);
  const Walk right_walk = walk_of(RIGHT_ACCESS, item, TILE_COLUMNS);
  const I left_lines = l.rows - first_row - left_walk.line;
  const __global X *left_from =
      left + batch * l.left.batch + (first_row + left_walk.line) * l.left.row;
  const int left_to = left_walk.depth * (LEFT_LINE * W) + left_walk.line;
  const int left_next = left_walk.depths * (LEFT_LINE * W) + left_walk.lines;
  const int right_to = right_walk.depth * (RIGHT_LINE * W) + right_walk.line;
  const int right_next = right_walk.depths * (RIGHT_LINE * W) + right_walk.lines;
#ifdef IMAGE
  const I left_step = left_walk.lines * l.left.row;
  const __global X *right_from = right + batch * l.right.batch;
  FIND_LOCATIONS(TILE_COLUMNS, ITEMS)
#else
  const I left_step = left_walk.lines * l.left.row + left_walk.depths * l.left.column;
  const I right_lines = l.columns - first_column - right_walk.line;
  const I right_step = right_walk.lines * l.right.column + right_walk.depths * l.right.row;
  const __global X *right_from = right + batch * l.right.batch +
                                 (first_column + right_walk.line) * l.right.column +
                                 (begin + right_walk.depth) * l.right.row;
  left_from += (begin + left_walk.depth) * l.left.column;
#endif

  V sums[ROWS][COLUMN_VECTORS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int c = 0; c < COLUMN_VECTORS; ++c) sums[r][c] = (V)(0);

  // Iteration k loads the slice at k and multiplies the previous one.
  int current = 0;
  for (I k = 0; k < depth + DEPTH; k += DEPTH) {
    S left_values[LEFT_LOADS], right_values[RIGHT_LOADS];
    if (k < depth) {
      // Elements beyond the end of a slice or a tile are zero.
      const I left_rest = depth - k - left_walk.depth;
#ifdef IMAGE
      const int kept = (int)(k % KEPT);
      const __local int *left_at = left_offsets + kept + left_walk.depth;
#endif
#pragma unroll
      for (int e = 0; e < LEFT_LOADS; ++e) {
        left_values[e] = 0;
        if (e * left_walk.lines < left_lines && e * left_walk.depths < left_rest) {
#ifdef IMAGE
          left_values[e] = LOAD(left_from, e * left_step + left_at[e * left_walk.depths]);
#else
          left_values[e] = LOAD(left_from, e * left_step);
#endif
        }
      }
#ifdef IMAGE
      const int along = RIGHT_ACCESS & ALONG_DEPTH;
      const int4 fixed =
          along ? depth_locations[kept + right_walk.depth] : column_locations[right_walk.line];
      const __local int4 *varying =
          along ? column_locations + right_walk.line : depth_locations + kept + right_walk.depth;
      const int next = along ? right_walk.lines : right_walk.depths;
#pragma unroll
      for (int e = 0; e < RIGHT_LOADS; ++e) {
        const int4 at = fixed + varying[e * next];
        right_values[e] = 0;
        if (INSIDE(at, image.size)) right_values[e] = LOAD(right_from, at.x);
      }
#else
      const I right_rest = depth - k - right_walk.depth;
#pragma unroll
      for (int e = 0; e < RIGHT_LOADS; ++e) {
        right_values[e] = 0;
        if (e * right_walk.lines < right_lines && e * right_walk.depths < right_rest) {
          right_values[e] = LOAD(right_from, e * right_step);
        }
      }
      left_from += DEPTH * l.left.column;
      right_from += DEPTH * l.right.row;
#endif
    }
    if (k > 0) {
      // Unrolled partly: prefetched values would take registers from another group.
#pragma unroll 4
      for (int d = 0; d < DEPTH; ++d) {
        S rows[ROWS];
        V columns[COLUMN_VECTORS];
#pragma unroll
        for (int r = 0; r < ROW_VECTORS; ++r) {
          VSTORE(left_slices[current][d * LEFT_LINE + r * DOWN + down], r, rows);
        }
#pragma unroll
        for (int c = 0; c < COLUMN_VECTORS; ++c) {
          columns[c] = right_slices[current][d * RIGHT_LINE + c * ACROSS + across];
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
#pragma unroll
          for (int c = 0; c < COLUMN_VECTORS; ++c) {
            sums[r][c] = (V)(rows[r]) * columns[c] + sums[r][c];
          }
      }
      current = 1 - current;
    }
#ifdef IMAGE
    // Computes the offsets of the next chunk before the last slice of this one is read.
    if ((k + 2 * DEPTH) % CHUNK == 0 && item < CHUNK) {
      const int to = (int)((k + 2 * DEPTH) % KEPT) + item;
      int offset;
      depth_locations[to] =
          image_location(begin + k + 2 * DEPTH + item, l.depth, &source.depth, &source, &offset);
      left_offsets[to] = offset;
    }
#endif
    if (k < depth) {
      __local S *left_slice = (__local S *)left_slices[current];
      __local S *right_slice = (__local S *)right_slices[current];
#pragma unroll
      for (int e = 0; e < LEFT_LOADS; ++e) left_slice[left_to + e * left_next] = left_values[e];
#pragma unroll
      for (int e = 0; e < RIGHT_LOADS; ++e) {
        right_slice[right_to + e * right_next] = right_values[e];
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  // Through memory: sums are indexed by constants only and stay in registers.
  S tile[ROWS * COLUMN_VECTORS * W];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int c = 0; c < COLUMN_VECTORS; ++c) VSTORE(sums[r][c], r * COLUMN_VECTORS + c, tile);
  for (int r = 0; r < ROWS; ++r) {
    const I row = first_row + (r / W * DOWN + down) * W + r % W;
    if (row >= l.rows) continue;
    for (int c = 0; c < COLUMN_VECTORS; ++c) {
      const int in_tile = (c * ACROSS + across) * W;
      const I column = first_column + in_tile;
      if (column >= l.columns) continue;
      const V sum = VLOAD(r * COLUMN_VECTORS + c, tile);
      STORE_IN_TILE(sum)
    }
  }
}
#endif

// W results from the sums of all parts, in the order of K.
__kernel void add_parts(PARAMETERS) {
  BEGIN
  const I item = get_global_id(0);
  if (item >= count) return;
  const I vectors = row_vectors(&layout);
  const I column = item % vectors * W;
  const I row = item / vectors % l.rows;
  const I batch = item / vectors / l.rows;
  V sum = (V)(0);
  for (I part = 0; part < l.parts; ++part) sum += VLOAD(part * count + item, partials);
#ifdef IMAGE
  const Image source = image;
  int offsets[W];
#pragma unroll
  for (int i = 0; i < W; ++i) {
    image_location(column + i, l.columns, &source.columns, &source, offsets + i);
  }
#define OFFSET_OF_COLUMN(i) offsets[i]
#else
#define OFFSET_OF_COLUMN(i) ((column + (i)) * l.out.column)
#endif
  STORE_RESULTS(sum, OFFSET_OF_COLUMN)
}
