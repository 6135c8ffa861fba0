// Convolutions of large maps, whose patches are read in place.
//
// An image is packed into the padded layout, a plane per channel: the positions of all images by
// row, with zeros between rows and between images. Then kernel element `tap` reads values at one
// distance from every position, and a product reads them there instead of from a matrix of patches.
// Some positions exist only in planes; their results are not stored. A convolution with strides has
// a plane per remainder of its positions.
//
// The kernel generator defines the macros of matrix_product.cl, and: ROWS x COLUMNS, the tile of a
// product, ROWS a power of two; PANELS, the most panels of ROWS rows of a work-item; FILTERS x
// ELEMENTS, the tile of a weight gradient; TAPS, the most elements of a kernel.

#define VECTORS (COLUMNS / W)

typedef struct {
  I phases[3], grid[3];  // planes per channel, and positions per plane
  I lead, plane;         // zeros before the first position; elements between planes
} PaddedSizes;

// Tap i of a dimension reads index floor((scale * i + offset) / step) relative to its position, in
// phase i % cycle.
typedef struct {
  I count[3], scale[3], offset[3], step[3], cycle[3];
} Taps;

static inline I floor_divide(const I a, const I b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// Computes the distance of each tap from its position. Returns their number.
static inline I find_offsets(const Taps *t, const PaddedSizes *p, I *offsets) {
  I n = 0;
  for (I z = 0; z < t->count[0]; ++z) {
    for (I y = 0; y < t->count[1]; ++y) {
      for (I x = 0; x < t->count[2]; ++x) {
        const I at[3] = {z, y, x};
        I phase = 0, location = 0;
        for (int d = 0; d < 3; ++d) {
          phase = phase * p->phases[d] + at[d] % t->cycle[d];
          location = location * p->grid[d] +
                  floor_divide(t->scale[d] * at[d] + t->offset[d], t->step[d]);
        }
        offsets[n++] = phase * p->plane + p->lead + location;
      }
    }
  }
  return n;
}

#define FIND_OFFSETS(count)               \
  I offsets[TAPS];                        \
  const Taps taps = t;                    \
  const PaddedSizes source = p;           \
  I count = find_offsets(&taps, &source, offsets);

typedef struct {
  I images, image, channel, stride[3], size[3];  // of the source
  I scale[3], offset[3], step[3];        // phase i has the indices (scale * i + offset) modulo step
} Source;

// Packs a row of a plane: indices first, first + step ... below `size`, then zeros up to `count`.
// `readable`: elements that may be read from `row` on; `room`: elements that may be written from
// `to` on, since later data is packed after this row.
static inline void pack_row(const __global X *row, __global S *to, const I first, const I step,
                            const I stride, const I size, const I count, const I readable,
                            const I room) {
  const I full = first < size ? (size - 1 - first) / step + 1 : 0;
  const int vectors = stride == 1 && full > 0 && room >= W;
  I x = 0;
  if (vectors && step == 1 && (full >= W || readable >= W)) {
    for (; x + W <= full; x += W) VSTORE(LOADV(row, first + x), 0, to + x);
    if (x < full) {
      const I last = max(full - W, (I)0);
      VSTORE(LOADV(row, first + last), 0, to + last);
    }
    x = full;
  } else if (vectors && step == 2 && (full > W || readable >= 2 * W)) {
    const I pairs = max(size / 2, (I)W);
    while (x < full && x < pairs) {
      x = min(x, pairs - W);  // overlaps: writes equal values again
      const V a = LOADV(row, 2 * x), b = LOADV(row, 2 * x + W);
      VSTORE(first == 0 ? (V)(a.even, b.even) : (V)(a.odd, b.odd), 0, to + x);
      x += W;
    }
    x = min(x, full);
  }
  for (; x < full; ++x) to[x] = LOAD(row, (x * step + first) * stride);
  for (; x < count; ++x) to[x] = 0;
}

// A work-item packs one image of one plane.
__kernel void pack_padded(OB_POINTER(X, source), OB_POINTER(S, planes), const Source s,
                          const PaddedSizes p, const I items) {
  OB_BIND(X, source) OB_BIND(S, planes)
  ITEM
  const I image = item % s.images, number = item / s.images;
  const I all = p.phases[0] * p.phases[1] * p.phases[2];
  I rest = number % all, first[3];
  for (int d = 2; d >= 0; --d) {
    const I value = s.scale[d] * (rest % p.phases[d]) + s.offset[d];
    first[d] = value - floor_divide(value, s.step[d]) * s.step[d];
    rest /= p.phases[d];
  }
  const __global X *from = source + image * s.image + number / all * s.channel;
  const I positions = p.grid[0] * p.grid[1] * p.grid[2];
  __global S *plane = planes + number * p.plane;
  if (image == 0) {
    for (I i = 0; i < p.lead; ++i) plane[i] = 0;
  }
  if (image == s.images - 1) {
    for (I i = p.lead + s.images * positions; i < p.plane; ++i) plane[i] = 0;
  }
  __global S *to = plane + p.lead + image * positions, *end = to + positions;
  for (I z = 0; z < p.grid[0]; ++z) {
    const I deep = z * s.step[0] + first[0];
    for (I y = 0; y < p.grid[1]; ++y, to += p.grid[2]) {
      const I high = y * s.step[1] + first[1];
      const int there = deep < s.size[0] && high < s.size[1];
      pack_row(from + (there ? deep * s.stride[0] + high * s.stride[1] : 0), to, first[2],
               s.step[2], s.stride[2], there ? s.size[2] : 0, p.grid[2],
               there ? (s.size[1] - 1 - high) * s.stride[1] + s.size[2] : 0, (I)(end - to));
    }
  }
}

typedef struct {
  I groups, rows, channels;  // rows and channels per group
  I group, row, channel;     // strides
  I size[3];                 // of kernels
  I count[3], first[3], step[3];  // the taps that are packed
} Weights;

// Transposes ROWS rows of W elements, `stride` apart, to W columns.
static inline void load_transposed(const __global X *from, const I stride, V *rows) {
  V mixed[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) rows[r] = LOADV(from, r * stride);
  // Interleaves `n` sequences of `m` vectors to half as many of twice the length, by element from
  // the first and the second half.
#pragma unroll
  for (int n = ROWS, m = 1; n > 1; n /= 2, m *= 2) {
#pragma unroll
    for (int i = 0; i < ROWS / 2; ++i) {
      const V a = rows[i], b = rows[i + ROWS / 2];
      mixed[2 * i].even = a.lo;
      mixed[2 * i].odd = b.lo;
      mixed[2 * i + 1].even = a.hi;
      mixed[2 * i + 1].odd = b.hi;
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) rows[i] = mixed[i];
  }
}

static inline void transpose(const __global X *from, const I stride, __global S *to) {
  V rows[ROWS];
  load_transposed(from, stride, rows);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) VSTORE(rows[r], r, to);
}

// Packs panels of ROWS rows, by tap, padded with zeros. A work-item packs `slice` channels.
__kernel void pack_weights(OB_POINTER(X, weight), OB_POINTER(S, packed), const Weights w,
                           const I slice, const I items) {
  OB_BIND(X, weight) OB_BIND(S, packed)
  ITEM
  const I slices = (w.channels + slice - 1) / slice, panels = (w.rows + ROWS - 1) / ROWS;
  const I begin = item % slices * slice, end = min(begin + slice, w.channels);
  const I panel = item / slices % panels, group = item / slices / panels;
  I offsets[TAPS], taps = 0;
  for (I z = 0; z < w.count[0]; ++z) {
    for (I y = 0; y < w.count[1]; ++y) {
      for (I x = 0; x < w.count[2]; ++x) {
        offsets[taps++] = ((w.first[0] + z * w.step[0]) * w.size[1] + w.first[1] + y * w.step[1]) *
                             w.size[2] +
                         w.first[2] + x * w.step[2];
      }
    }
  }
  const I height = min((I)ROWS, w.rows - panel * ROWS);
  const __global X *from = weight + group * w.group + panel * ROWS * w.row;
  __global S *to = packed + ((group * panels + panel) * w.channels + begin) * taps * ROWS;
  if (height == ROWS && w.channel == taps && taps == w.size[0] * w.size[1] * w.size[2]) {
    // The elements of a row are contiguous.
    const I last = end * taps;
    I k = begin * taps;
    for (; k + W <= last; k += W, to += W * ROWS) transpose(from + k, w.row, to);
    for (; k < last; ++k, to += ROWS) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) to[r] = LOAD(from, r * w.row + k);
    }
    return;
  }
  const int whole = height == ROWS && taps <= W && taps == w.size[0] * w.size[1] * w.size[2];
  for (I c = begin; c < end; ++c) {
    if (whole && (end - c) * taps >= W) {
      // The excess of a vector belongs to the next channels, which overwrite it.
      transpose(from + c * w.channel, w.row, to);
      to += taps * ROWS;
      continue;
    }
    for (I t = 0; t < taps; ++t, to += ROWS) {
      const __global X *at = from + c * w.channel + offsets[t];
      if (height == ROWS) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) to[r] = LOAD(at, r * w.row);
      } else {
        for (int r = 0; r < ROWS; ++r) to[r] = 0;
        for (int r = 0; r < height; ++r) to[r] = LOAD(at, r * w.row);
      }
    }
  }
}

typedef struct {
  I groups, rows, channels;  // rows and channels per group
  I count, grid[3];          // columns: of all images, and per image
  I extent[3];               // columns that the result has
  I image, row, first, stride[3];  // of the result
} Result;

// Packs panels of COLUMNS result positions, by tap, for small maps, where planes have too many
// extra positions. A work-item packs `slice` channels.
__kernel void gather_patches(OB_POINTER(S, planes), OB_POINTER(S, packed), const PaddedSizes p,
                             const Taps t, const Result l, const I slice, const I items) {
  OB_BIND(S, planes) OB_BIND(S, packed)
  ITEM
  const I slices = (l.channels + slice - 1) / slice, panels = (l.count + COLUMNS - 1) / COLUMNS;
  const I begin = item % slices * slice, end = min(begin + slice, l.channels);
  const I panel = item / slices % panels, group = item / slices / panels;
  FIND_OFFSETS(count)
  // Runs of contiguous positions in planes, up to a vector; run n begins at column starts[n].
  I starts[COLUMNS + 1], locations[COLUMNS], runs = 0;
  const I width = min((I)COLUMNS, l.count - panel * COLUMNS);
  for (I i = 0, next = -1; i < width; ++i, ++next) {
    const I column = panel * COLUMNS + i;
    const I x = column % l.grid[2], y = column / l.grid[2] % l.grid[1];
    const I deep = column / l.grid[2] / l.grid[1];
    const I z = deep % l.grid[0], image = deep / l.grid[0];
    const I location = ((image * p.grid[0] + z) * p.grid[1] + y) * p.grid[2] + x;
    if (i > 0 && location == next && i < starts[runs - 1] + W) continue;
    starts[runs] = i;
    locations[runs++] = next = location;
  }
  starts[runs] = width;
  const I channel = p.phases[0] * p.phases[1] * p.phases[2] * p.plane;
  __global S *to = packed + ((group * panels + panel) * l.channels + begin) * count * COLUMNS;
  const __global S *last = to + (end - begin) * count * COLUMNS - COLUMNS;
  for (I c = begin; c < end; ++c) {
    const __global S *from = planes + (group * l.channels + c) * channel;
    for (I n = 0; n < count; ++n, to += COLUMNS) {
      const __global S *tap = from + offsets[n];
      if (to < last) {
        // Each run overwrites the excess of the previous vector.
        for (I i = 0; i < runs; ++i) VSTORE(VLOAD(0, tap + locations[i]), 0, to + starts[i]);
        continue;
      }
      for (I i = 0; i < runs; ++i) {
        for (I j = starts[i]; j < starts[i + 1]; ++j) to[j] = tap[locations[i] + j - starts[i]];
      }
    }
  }
}

// Sums of a tile over `channels` times `taps`: rows packed in `a` and columns in `b`.
static inline void multiply(const __global S *a, const __global S *b, const I channels,
                            const I channel, const I *offsets, const I taps, S *tile) {
  V sums[ROWS][VECTORS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) sums[r][v] = (V)(0);
  for (I c = 0; c < channels; ++c, b += channel) {
    for (I t = 0; t < taps; ++t, a += ROWS) {
      const __global S *from = b + offsets[t];
      V x[VECTORS];
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) x[v] = VLOAD(v, from);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const V y = (V)(a[r]);
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) sums[r][v] = y * x[v] + sums[r][v];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) VSTORE(sums[r][v], r * VECTORS + v, tile);
}

// out = weights * planes (+ bias), `panels` panels of rows per work-item; `gathered`: columns are
// from gather_patches.
__kernel void padded_tiles(OB_POINTER(S, weights), OB_POINTER(S, planes), OB_POINTER(X, out),
                          OB_POINTER(X, bias), const PaddedSizes p, const Taps t, const Result l,
                          const I bias_stride, const int adds, const int gathered, const I panels,
                          const I items) {
  OB_BIND(S, weights) OB_BIND(S, planes) OB_BIND(X, out) OB_BIND(X, bias)
  ITEM
  const I row_panels = (l.rows + ROWS - 1) / ROWS, column_panels = (l.count + COLUMNS - 1) / COLUMNS;
  const I parts = (row_panels + panels - 1) / panels;
  const I column = item / parts % column_panels * COLUMNS, group = item / parts / column_panels;
  const I last = min((item % parts + 1) * panels, row_panels);
  FIND_OFFSETS(count)
  I channels = l.channels;
  const I depth = count * channels;
  I channel = p.phases[0] * p.phases[1] * p.phases[2] * p.plane;
  const __global S *b = planes + group * channels * channel + column;
  if (gathered) {
    b = planes + (group * column_panels + column / COLUMNS) * depth * COLUMNS;
    channels = depth;
    channel = COLUMNS;
    count = 1;
    offsets[0] = 0;
  }
  // Offset of each column in the result; -1 if it is not there.
  I at[COLUMNS];
  int dense[VECTORS];
  I x = column % l.grid[2], y = column / l.grid[2] % l.grid[1];
  I deep = column / l.grid[2] / l.grid[1];
  I z = deep % l.grid[0], image = deep / l.grid[0];
  for (int i = 0; i < COLUMNS; ++i) {
    const int there = column + i < l.count && z < l.extent[0] && y < l.extent[1] && x < l.extent[2];
    at[i] = there ? l.first + image * l.image + z * l.stride[0] + y * l.stride[1] + x * l.stride[2]
                  : -1;
    if (++x == l.grid[2]) {
      x = 0;
      if (++y == l.grid[1]) {
        y = 0;
        if (++z == l.grid[0]) {
          z = 0;
          ++image;
        }
      }
    }
  }
  for (int v = 0; v < VECTORS; ++v) {
    dense[v] = at[v * W] >= 0;
    for (int i = 1; i < W; ++i) dense[v] = dense[v] && at[v * W + i] == at[v * W] + i;
  }
  for (I panel = item % parts * panels; panel < last; ++panel) {
    S tile[ROWS * COLUMNS];
    multiply(weights + (group * row_panels + panel) * depth * ROWS, b, channels, channel, offsets,
             count, tile);
    const I height = min((I)ROWS, l.rows - panel * ROWS);
    for (I r = 0; r < height; ++r) {
      const I row = group * l.rows + panel * ROWS + r;
      const S first = adds ? LOAD(bias, row * bias_stride) : (S)0;
      __global X *to = out + row * l.row;
      for (int v = 0; v < VECTORS; ++v) {
        const S *values = tile + r * COLUMNS + v * W;
        if (dense[v]) {
          STOREV(to, at[v * W], VLOAD(0, values) + (V)(first));
          continue;
        }
        for (int i = 0; i < W; ++i) {
          const I location = at[v * W + i];
          if (location >= 0) STORE(to, location, values[i] + first);
        }
      }
    }
  }
}

typedef struct {
  I groups, filters, channels;  // filters and channels per group
  I plane;                      // of the gradient's planes, without phases
  I gradient_group, group;      // elements between groups: gradient's planes, other planes
  I positions, part;            // per plane; per work-item
  I block;                      // filters per work-item
  I elements;                   // of filters, per work-item
} Gradient;

// The weight gradient: sums over positions of each filter's gradient times the values that each
// filter element reads. A work-item has some filters, elements and positions. `sums` has a weight
// per part of the positions, stored or added to.
__kernel void padded_gradients(OB_POINTER(S, gradients), OB_POINTER(S, planes), OB_POINTER(S, sums),
                              const PaddedSizes p, const Taps t, const Gradient g, const int adds,
                              const I items) {
  OB_BIND(S, gradients) OB_BIND(S, planes) OB_BIND(S, sums)
  ITEM
  FIND_OFFSETS(taps_of_kernel)
  const I elements = g.channels * taps_of_kernel;
  const I blocks = (g.filters + g.block - 1) / g.block;
  const I ranges = (elements + g.elements - 1) / g.elements;
  const I parts = (g.positions + g.part - 1) / g.part;
  I rest = item;
  const I first_filter = rest % blocks * g.block;
  rest /= blocks;
  const I first_element = rest % ranges * g.elements;
  rest /= ranges;
  const I part = rest % parts, group = rest / parts;
  const I last_filter = min(first_filter + g.block, g.filters);
  const I last_element = min(first_element + g.elements, elements);
  const I begin = part * g.part, end = min(begin + g.part, g.positions);
  const I channel = p.phases[0] * p.phases[1] * p.phases[2] * p.plane;
  const __global S *from = planes + group * g.group;
  for (I e = first_element; e < last_element; e += ELEMENTS) {
    const __global S *x[ELEMENTS];
#pragma unroll
    for (int i = 0; i < ELEMENTS; ++i) {
      const I element = min(e + i, last_element - 1);
      x[i] = from + element / taps_of_kernel * channel + offsets[element % taps_of_kernel];
    }
    for (I f = first_filter; f < last_filter; f += FILTERS) {
      const __global S *y[FILTERS];
#pragma unroll
      for (int i = 0; i < FILTERS; ++i) {
        y[i] = gradients + group * g.gradient_group + min(f + i, last_filter - 1) * g.plane;
      }
      V total[FILTERS][ELEMENTS];
#pragma unroll
      for (int i = 0; i < FILTERS; ++i)
#pragma unroll
        for (int j = 0; j < ELEMENTS; ++j) total[i][j] = (V)(0);
      for (I k = begin; k < end; k += W) {
        V values[FILTERS];
#pragma unroll
        for (int i = 0; i < FILTERS; ++i) values[i] = VLOAD(0, y[i] + k);
#pragma unroll
        for (int j = 0; j < ELEMENTS; ++j) {
          const V value = VLOAD(0, x[j] + k);
#pragma unroll
          for (int i = 0; i < FILTERS; ++i) total[i][j] = values[i] * value + total[i][j];
        }
      }
      // Horizontal sums: halves of adjacent vectors are added, until a vector has the sums of W
      // vectors. In loops through memory: x86 can encode horizontal sums only with the first 16
      // registers, and compilers would allocate all of the above there.
      S tile[(FILTERS * ELEMENTS / 2 + 1) * W];
      int vectors = FILTERS * ELEMENTS / 2;
#pragma unroll
      for (int i = 0; i < FILTERS * ELEMENTS / 2; ++i) {
        const V a = total[2 * i / ELEMENTS][2 * i % ELEMENTS];
        const V b = total[(2 * i + 1) / ELEMENTS][(2 * i + 1) % ELEMENTS];
        VSTORE((V)(a.lo + a.hi, b.lo + b.hi), i, tile);
      }
#pragma unroll 1
      for (int width = W / 2; width > 1; width /= 2) {
        if (vectors % 2 == 1) VSTORE((V)(0), vectors, tile);
        vectors = (vectors + 1) / 2;
#pragma unroll 1
        for (int i = 0; i < vectors; ++i) {
          const V a = VLOAD(2 * i, tile), b = VLOAD(2 * i + 1, tile);
          VSTORE((V)(a.even + a.odd, b.even + b.odd), i, tile);
        }
      }
      const I height = min((I)FILTERS, last_filter - f), count = min((I)ELEMENTS, last_element - e);
      __global S *to = sums + ((part * g.groups + group) * g.filters + f) * elements + e;
      if (height == FILTERS && count == ELEMENTS && !adds) {
#pragma unroll
        for (int i = 0; i < FILTERS; ++i)
#pragma unroll
          for (int j = 0; j < ELEMENTS; ++j) to[i * elements + j] = tile[i * ELEMENTS + j];
        continue;
      }
      for (I i = 0; i < height; ++i, to += elements) {
        for (I j = 0; j < count; ++j) {
          to[j] = adds ? to[j] + tile[i * ELEMENTS + j] : tile[i * ELEMENTS + j];
        }
      }
    }
  }
}

// Sums the weights of the parts of the positions.
__kernel void sum_parts(OB_POINTER(S, sums), OB_POINTER(X, out), const I parts, const I elements,
                        const I items) {
  OB_BIND(S, sums) OB_BIND(X, out)
  ITEM
  const I first = item * SLICE, last = min(first + SLICE, elements);
  I i = first;
  for (; i + W <= last; i += W) {
    V total = VLOAD(0, sums + i);
    for (I n = 1; n < parts; ++n) total += VLOAD(0, sums + n * elements + i);
    STOREV(out, i, total);
  }
  for (; i < last; ++i) {
    S total = sums[i];
    for (I n = 1; n < parts; ++n) total += sums[n * elements + i];
    STORE(out, i, total);
  }
}
