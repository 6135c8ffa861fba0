// Convolutions with 3 x 3 kernels and stride 1, by the algorithm F(2 x 2, 3 x 3) of Lavin and Gray,
// "Fast algorithms for convolutional neural networks" (CVPR 2016): tiles of 2 x 2 results take 16
// products instead of 36, of sums of elements of the image and of the kernel. The weight gradient
// is the transpose, F(3 x 3, 2 x 2): 9 elements from 16 products.
//
// Needs padded_convolution.cl before it, whose planes, tiles and products it uses.

#define POINTS 16  // products per tile: 4 x 4

typedef struct {
  I images, high, wide;  // rows and columns of tiles per image
  I pitch;               // elements per point and channel: all tiles, plus a vector of padding
  I weights, inputs;     // elements between points
} TileGrid;

// Input transform B' d B of tiles of 4 x 4 positions, 2 apart. `to`: the first point of the first
// tile; points are `point` apart. Writes W consecutive tiles.
static inline void transform_inputs(const __global S *from, const I row, __global S *to,
                                    const I point) {
  V d[4][4];
#pragma unroll
  for (int y = 0; y < 4; ++y) {
    const __global S *inputs = from + y * row;
    const V a = VLOAD(0, inputs), b = VLOAD(1, inputs);
    const V c = VLOAD(0, inputs + 2), e = VLOAD(1, inputs + 2);
    const V first = (V)(a.even, b.even), second = (V)(a.odd, b.odd);
    const V third = (V)(c.even, e.even), fourth = (V)(c.odd, e.odd);
    d[y][0] = first - third;
    d[y][1] = second + third;
    d[y][2] = third - second;
    d[y][3] = second - fourth;
  }
#pragma unroll
  for (int x = 0; x < 4; ++x) {
    VSTORE(d[0][x] - d[2][x], 0, to + x * point);
    VSTORE(d[1][x] + d[2][x], 0, to + (4 + x) * point);
    VSTORE(d[2][x] - d[1][x], 0, to + (8 + x) * point);
    VSTORE(d[1][x] - d[3][x], 0, to + (12 + x) * point);
  }
}

// Zeros after the last tile, since sums over tiles use whole vectors.
static inline void end_points(__global S *to, const I point) {
  for (int e = 0; e < POINTS; ++e) VSTORE((V)(0), 0, to + e * point);
}

// The tiles of a channel, by point. One work-item per channel.
__kernel void winograd_inputs(OB_POINTER(S, planes), OB_POINTER(S, points), const PaddedSizes p,
                              const Taps t, const TileGrid g, const I items) {
  OB_BIND(S, planes) OB_BIND(S, points)
  ITEM
  FIND_OFFSETS(count)
  const __global S *from = planes + item * p.plane + offsets[0];
  __global S *to = points + item * g.pitch;
  for (I image = 0; image < g.images; ++image) {
    for (I y = 0; y < g.high; ++y, to += g.wide) {
      const __global S *row = from + (image * p.grid[1] + 2 * y) * p.grid[2];
      // The next row overwrites the excess of a row's last vector.
      for (I x = 0; x < g.wide; x += W) {
        transform_inputs(row + 2 * x, p.grid[2], to + x, g.inputs);
      }
    }
  }
  end_points(to, g.inputs);
}

// Transform A g A' of tiles of 2 x 2 of a gradient. One work-item per channel.
__kernel void winograd_gradients(OB_POINTER(X, gradients), OB_POINTER(S, points), const Source s,
                                 const TileGrid g, const I items) {
  OB_BIND(X, gradients) OB_BIND(S, points)
  ITEM
  __global S *to = points + item * g.pitch;
  for (I image = 0; image < g.images; ++image) {
    for (I y = 0; y < g.high; ++y, to += g.wide) {
      const __global X *row =
          gradients + image * s.image + item * s.channel + 2 * y * s.stride[1];
      const I rows = min((I)2, s.size[1] - 2 * y);
      for (I x = 0; x < g.wide; x += W) {
        V m[4][2];
        if (s.stride[2] == 1 && 2 * (x + W) <= s.size[2]) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const __global X *values_of_row = row + (i < rows ? i * s.stride[1] : 0);
            const V a = LOADV(values_of_row, 2 * x), b = LOADV(values_of_row, 2 * x + W);
            m[3 * i][0] = i < rows ? (V)(a.even, b.even) : (V)(0);
            m[3 * i][1] = i < rows ? (V)(a.odd, b.odd) : (V)(0);
          }
        } else {
          for (I i = 0; i < 2; ++i) {
            S values[2][W];
            for (I j = 0; j < 2 * W; ++j) {
              const int there = i < rows && 2 * x + j < s.size[2];
              values[j % 2][j / 2] =
                  there ? LOAD(row, i * s.stride[1] + (2 * x + j) * s.stride[2]) : (S)0;
            }
            m[3 * i][0] = VLOAD(0, values[0]);
            m[3 * i][1] = VLOAD(0, values[1]);
          }
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          m[1][j] = m[0][j] + m[3][j];
          m[2][j] = m[0][j] - m[3][j];
          m[3][j] = -m[3][j];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          __global S *points_of_row = to + x + 4 * i * g.inputs;
          VSTORE(m[i][0], 0, points_of_row);
          VSTORE(m[i][0] + m[i][1], 0, points_of_row + g.inputs);
          VSTORE(m[i][0] - m[i][1], 0, points_of_row + 2 * g.inputs);
          VSTORE(-m[i][1], 0, points_of_row + 3 * g.inputs);
        }
      }
    }
  }
  end_points(to, g.inputs);
}

static inline void transpose_points(const V a, const V b, const V c, const V d, V *to, const int step) {
  const V sum = (b + c) * (V)(0.5f), difference = (b - c) * (V)(0.5f);
  to[0] = a + sum;
  to[step] = difference;
  to[2 * step] = sum + d;
}

// The weight gradient G' m G from `parts` sums of products of all points. `elements`: number of its
// kernels, at least W; a work-item computes `slice` of them.
__kernel void winograd_kernels(OB_POINTER(S, sums), OB_POINTER(X, out), const I parts,
                               const I elements, const I slice, const I items) {
  OB_BIND(S, sums) OB_BIND(X, out)
  ITEM
  const I last = min((item + 1) * slice, elements);
  for (I i = item * slice; i < last; i += W) {
    const I first = min(i, elements - W);  // overlaps: writes equal values again
    V m[POINTS], rows[12], kernels[9];
#pragma unroll
    for (int e = 0; e < POINTS; ++e) m[e] = VLOAD(0, sums + e * elements + first);
    for (I n = 1; n < parts; ++n) {
#pragma unroll
      for (int e = 0; e < POINTS; ++e) m[e] += VLOAD(0, sums + (n * POINTS + e) * elements + first);
    }
#pragma unroll
    for (int x = 0; x < 4; ++x) transpose_points(m[x], m[4 + x], m[8 + x], m[12 + x], rows + x, 4);
#pragma unroll
    for (int y = 0; y < 3; ++y) {
      const V *row = rows + 4 * y;
      transpose_points(row[0], row[1], row[2], row[3], kernels + 3 * y, 1);
    }
    S values[9 * W];
#pragma unroll
    for (int e = 0; e < 9; ++e) VSTORE(kernels[e], e, values);
    for (int j = 0; j < W; ++j) {
      for (int e = 0; e < 9; ++e) STORE(out, (first + j) * 9 + e, values[e * W + j]);
    }
  }
}

// Kernel transform G g G', ROWS rows adjacent. A work-item transforms `slice` channels of a panel.
__kernel void winograd_weights(OB_POINTER(X, weight), OB_POINTER(S, packed), const Weights w,
                               const TileGrid grid, const int flipped, const I panels, const I slice,
                               const I items) {
  OB_BIND(X, weight) OB_BIND(S, packed)
  ITEM
  const I slices = (w.channels + slice - 1) / slice;
  const I begin = item % slices * slice, end = min(begin + slice, w.channels);
  const I panel = item / slices % panels, group = item / slices / panels;
  const __global X *from = weight + group * w.group + panel * ROWS * w.row;
  __global S *to = packed + ((group * panels + panel) * w.channels + begin) * ROWS;
  const I height = min((I)ROWS, w.rows - panel * ROWS);
  // Vectors may be read if elements of further channels follow in the same row.
  const int whole = height == ROWS && W >= 9;
  for (I c = begin; c < end; ++c, to += ROWS) {
    S g[(W < 9 ? 9 : W) * ROWS], rows[12][ROWS];
    if (whole && w.channel == 9 && (w.channels - c) * 9 >= W) {
      V elements[ROWS];
      load_transposed(from + c * 9, w.row, elements);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) VSTORE(elements[r], r, g);
    } else {
      for (int r = 0; r < ROWS; ++r) {
        const __global X *elements = from + min((I)r, height - 1) * w.row + c * w.channel;
        for (int i = 0; i < 9; ++i) g[i * ROWS + r] = r < height ? LOAD(elements, i) : (S)0;
      }
    }
#pragma unroll
    for (int x = 0; x < 3; ++x) {
      const S *top = g + (flipped ? 8 - x : x) * ROWS, *bottom = g + (flipped ? 2 - x : 6 + x) * ROWS;
      const S *between = g + (flipped ? 5 - x : 3 + x) * ROWS;
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const S sum = (top[r] + bottom[r]) * (S)0.5, middle = between[r] * (S)0.5;
        rows[x][r] = top[r];
        rows[3 + x][r] = sum + middle;
        rows[6 + x][r] = sum - middle;
        rows[9 + x][r] = bottom[r];
      }
    }
#pragma unroll
    for (int y = 0; y < 4; ++y) {
      __global S *points = to + 4 * y * grid.weights;
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const S sum = (rows[3 * y][r] + rows[3 * y + 2][r]) * (S)0.5;
        const S middle = rows[3 * y + 1][r] * (S)0.5;
        points[r] = rows[3 * y][r];
        points[grid.weights + r] = sum + middle;
        points[2 * grid.weights + r] = sum - middle;
        points[3 * grid.weights + r] = rows[3 * y + 2][r];
      }
    }
  }
}

// Stores `count` contiguous elements; `from` has a vector of padding.
static inline void write_row(const S *from, __global X *out, const I at, const I count) {
  I i = 0;
  for (; i + W <= count; i += W) STOREV(out, at + i, VLOAD(0, from + i));
  if (i == count) return;
  if (count >= W) {
    STOREV(out, at + count - W, VLOAD(0, from + count - W));
    return;
  }
  for (; i < count; ++i) STORE(out, at + i, from[i]);
}

// Products of all points and the output transform A' m A: out = weights * inputs (+ bias), `panels`
// panels of rows per work-item, at most PANELS.
__kernel void winograd_tiles(OB_POINTER(S, weights), OB_POINTER(S, points), OB_POINTER(X, out),
                             OB_POINTER(X, bias), const Result l, const TileGrid g,
                             const I bias_stride, const int adds, const I panels, const I items) {
  OB_BIND(S, weights) OB_BIND(S, points) OB_BIND(X, out) OB_BIND(X, bias)
  ITEM
  const I row_panels = (l.rows + ROWS - 1) / ROWS, column_panels = (l.count + COLUMNS - 1) / COLUMNS;
  const I parts = (row_panels + panels - 1) / panels;
  const I column = item / parts % column_panels * COLUMNS, group = item / parts / column_panels;
  const I last = min((item % parts + 1) * panels, row_panels);
  const I offsets[1] = {0};
  const __global S *b = points + group * l.channels * g.pitch + column;
  // Runs of consecutive tiles of one row: the first, the offset of its results, and their extents
  // in x and in y.
  I starts[COLUMNS + 1], targets[COLUMNS], widths[COLUMNS], heights[COLUMNS], runs = 0;
  const I width = min((I)COLUMNS, l.count - column);
  for (I i = 0; i < width;) {
    const I x = (column + i) % g.wide, y = (column + i) / g.wide % g.high;
    const I image = (column + i) / g.wide / g.high;
    const I tiles = min(g.wide - x, width - i);
    starts[runs] = i;
    targets[runs] = image * l.image + 2 * y * l.stride[1] + 2 * x;
    widths[runs] = min(2 * tiles, l.extent[2] - 2 * x);
    heights[runs++] = min((I)2, l.extent[1] - 2 * y);
    i += tiles;
  }
  // By point, so that the positions of a point stay in the L1 cache for all panels.
  const I begin = item % parts * panels;
  S tiles[PANELS * POINTS * ROWS * COLUMNS];
  for (int e = 0; e < POINTS; ++e) {
    for (I panel = begin; panel < last; ++panel) {
      multiply(weights + e * g.weights + (group * row_panels + panel) * l.channels * ROWS,
               b + e * g.inputs, l.channels, g.pitch, offsets, 1,
               tiles + ((panel - begin) * POINTS + e) * ROWS * COLUMNS);
    }
  }
  for (I panel = begin; panel < last; ++panel) {
    const S *tile = tiles + (panel - begin) * POINTS * ROWS * COLUMNS;
    const I height = min((I)ROWS, l.rows - panel * ROWS);
    for (I r = 0; r < height; ++r) {
      const I row = group * l.rows + panel * ROWS + r;
      const V first = (V)(adds ? LOAD(bias, row * bias_stride) : (S)0);
      S results[2][2 * COLUMNS + W];
      for (int v = 0; v < VECTORS; ++v) {
        const S *products = tile + r * COLUMNS + v * W;
        V sums[2][4];
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          V m[4];
#pragma unroll
          for (int y = 0; y < 4; ++y) m[y] = VLOAD(0, products + (4 * y + x) * ROWS * COLUMNS);
          sums[0][x] = m[0] + m[1] + m[2];
          sums[1][x] = m[1] - m[2] - m[3];
        }
#pragma unroll
        for (int y = 0; y < 2; ++y) {
          const V even = sums[y][0] + sums[y][1] + sums[y][2] + first;
          const V odd = sums[y][1] - sums[y][2] - sums[y][3] + first;
          V low, high;
          low.even = even.lo, low.odd = odd.lo;
          high.even = even.hi, high.odd = odd.hi;
          VSTORE(low, 2 * v, results[y]);
          VSTORE(high, 2 * v + 1, results[y]);
        }
      }
      for (I n = 0; n < runs; ++n) {
        for (I y = 0; y < heights[n]; ++y) {
          const I at = row * l.row + targets[n] + y * l.stride[1];
          write_row(results[y] + 2 * starts[n], out, at, widths[n]);
        }
      }
    }
  }
}
