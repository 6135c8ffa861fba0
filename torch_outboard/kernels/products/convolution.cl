// Convolution by the products of matrix_product.cl, which precedes this source.
//
// A patch element is (channel, depth, height, width of the kernel), a position (batch, depth,
// height, width of the kernel's location); both have row-major indices.

typedef struct {
  I batches, depth, begin, count;  // of the packed operand; columns [begin, begin + count)
  I group, image, channel;         // strides of the source
  I size[3], stride[3];            // of the source
  I kernel_size[3], step[3], padding[3], dilation[3];
  I positions[3];
  I scattered;  // transposed: the source is the output of a convolution, positions are of its input
  I across;     // columns are patch elements, K is positions; otherwise the reverse
} Patches;

// Coordinate of kernel element `k` at `position`; -1 if outside or between steps.
static inline I coordinate(I position, I k, const Patches *l, int d) {
  if (!l->scattered) {
    const I at = position * l->step[d] - l->padding[d] + k * l->dilation[d];
    return at >= 0 && at < l->size[d] ? at : -1;
  }
  const I at = position + l->padding[d] - k * l->dilation[d];
  if (at < 0) return -1;
  if (l->step[d] == 1) return at < l->size[d] ? at : -1;
  const I source = at / l->step[d];
  return source * l->step[d] == at && source < l->size[d] ? source : -1;
}

// The four digits of an index.
static inline void split(I number, const I *sizes, I *parts) {
  for (int d = 2; d >= 0; --d) {
    parts[d + 1] = number % sizes[d];
    number /= sizes[d];
  }
  parts[0] = number;
}

static inline void increment(const I *sizes, I *parts) {
  for (int d = 2; d >= 0; --d) {
    if (++parts[d + 1] < sizes[d]) return;
    parts[d + 1] = 0;
  }
  ++parts[0];
}

// Values that kernel element `k` reads in one row at W positions from `position` on.
static inline V read_row(const __global X *row, I position, I k, const Patches *l) {
  const I step = l->step[2], size = l->size[2];
  const I shift = k * l->dilation[2] - l->padding[2];
  I x = l->scattered ? position - shift : position * step + shift;
  if (step == 1 && l->stride[2] == 1 && x >= 0 && x + W <= size) return LOADV(row, x);
  S lanes[W];
  if (l->scattered) {
    I rest = x % step;
    if (rest < 0) rest += step;
    x = (x - rest) / step;
    for (int i = 0; i < W; ++i) {
      lanes[i] = 0;
      if (rest == 0 && x >= 0 && x < size) lanes[i] = LOAD(row, x * l->stride[2]);
      if (++rest == step) {
        rest = 0;
        ++x;
      }
    }
  } else {
    for (int i = 0; i < W; ++i, x += step) {
      lanes[i] = 0;
      if (x >= 0 && x < size) lanes[i] = LOAD(row, x * l->stride[2]);
    }
  }
  return VLOAD(0, lanes);
}

static inline void pack_positions(const __global X *source, __global S *packed, const Patches *l,
                                  I column, I first, I last) {
  I at[COLUMNS][4];
  for (int c = 0; c < COLUMNS; ++c) split(column + c, l->positions, at[c]);
  const I end = l->begin + l->count;
  I patch[4];
  split(first, l->kernel_size, patch);
  for (I k = first; k < last; ++k, increment(l->kernel_size, patch), packed += COLUMNS) {
    const __global X *plane = source + patch[0] * l->channel;
    for (int c = 0; c < COLUMNS; c += W) {
      const I *p = at[c];
      // W positions in one row: only their last coordinate differs.
      if (column + c + W <= end && p[3] + W <= l->positions[2]) {
        const I z = coordinate(p[1], patch[1], l, 0), y = coordinate(p[2], patch[2], l, 1);
        V values = (V)(0);
        if (z >= 0 && y >= 0) {
          const __global X *row = plane + p[0] * l->image + z * l->stride[0] + y * l->stride[1];
          values = read_row(row, p[3], patch[3], l);
        }
        VSTORE(values, 0, packed + c);
        continue;
      }
      // Otherwise the part of each row.
      for (int i = c; i < c + W;) {
        const I *q = at[i];
        const int stop = column + i < end ? (int)min((I)(c + W), i + l->positions[2] - q[3]) : c + W;
        const I z = coordinate(q[1], patch[1], l, 0), y = coordinate(q[2], patch[2], l, 1);
        if (column + i >= end || z < 0 || y < 0) {
          for (; i < stop; ++i) packed[i] = 0;
          continue;
        }
        const __global X *row = plane + q[0] * l->image + z * l->stride[0] + y * l->stride[1];
        for (I position = q[3]; i < stop; ++i, ++position) {
          const I x = column + i < end ? coordinate(position, patch[3], l, 2) : -1;
          S value = 0;
          if (x >= 0) value = LOAD(row, x * l->stride[2]);
          packed[i] = value;
        }
      }
    }
  }
}

static inline void pack_elements(const __global X *source, __global S *packed, const Patches *l,
                                 I column, I first, I last) {
  for (int c = 0; c < COLUMNS; ++c) {
    __global S *to = packed + c;
    if (column + c >= l->begin + l->count) {
      for (I k = first; k < last; ++k, to += COLUMNS) *to = 0;
      continue;
    }
    I patch[4], at[4];
    split(column + c, l->kernel_size, patch);
    split(first, l->positions, at);
    const __global X *plane = source + patch[0] * l->channel;
    I k = first;
    while (k < last) {
      const I z = coordinate(at[1], patch[1], l, 0), y = coordinate(at[2], patch[2], l, 1);
      const __global X *row = plane + at[0] * l->image + z * l->stride[0] + y * l->stride[1];
      const I stop = min(at[3] + last - k, l->positions[2]);
      k += stop - at[3];
      for (; at[3] < stop; ++at[3], to += COLUMNS) {
        const I x = z >= 0 && y >= 0 ? coordinate(at[3], patch[3], l, 2) : -1;
        *to = 0;
        if (x >= 0) *to = LOAD(row, x * l->stride[2]);
      }
      --at[3];
      increment(l->positions, at);
    }
  }
}

// Packs the right operand of a product from an image, like pack_right from a matrix.
__kernel void pack_patches(OB_POINTER(X, source), OB_POINTER(S, packed), const Patches l,
                           const I items) {
  OB_BIND(X, source) OB_BIND(S, packed)
  ITEM
  const I slices = (l.depth + SLICE - 1) / SLICE;
  const I panels = (l.count + COLUMNS - 1) / COLUMNS;
  const I panel = item / slices % panels;
  const I batch = item / slices / panels;
  const I first = item % slices * SLICE;
  const I last = min(first + (I)SLICE, l.depth);
  const __global X *from = source + batch * l.group;
  __global S *to = packed + (batch * panels + panel) * l.depth * COLUMNS + first * COLUMNS;
  const Patches layout = l;
  if (l.across) {
    pack_elements(from, to, &layout, l.begin + panel * COLUMNS, first, last);
  } else {
    pack_positions(from, to, &layout, l.begin + panel * COLUMNS, first, last);
  }
}

// The input gradient of a convolution with strides, from `columns`: values of each patch element
// (channel, kernel's depth, height, width) for each of `count` positions. One work-item per row.
__kernel void gather_columns(OB_POINTER(X, columns), OB_POINTER(X, out), OB_POINTER(X, bias),
                             const Patches l, const I bias_stride, const int adds, const I items) {
  OB_BIND(X, columns) OB_BIND(X, out) OB_BIND(X, bias)
  ITEM
  const I y = item % l.size[1], z = item / l.size[1] % l.size[0];
  const I c = item / l.size[1] / l.size[0] % l.depth, n = item / l.size[1] / l.size[0] / l.depth;
  __global X *to = out + n * l.image + c * l.channel + z * l.stride[0] + y * l.stride[1];
  const S first = adds ? LOAD(bias, c * bias_stride) : (S)0;
  for (I x = 0; x < l.size[2]; ++x) STORE(to, x * l.stride[2], first);
  const I step = l.step[2], stride = l.stride[2];
  for (I i = 0; i < l.kernel_size[0]; ++i) {
    const I deep = z + l.padding[0] - i * l.dilation[0];
    if (deep < 0 || deep % l.step[0] != 0 || deep / l.step[0] >= l.positions[0]) continue;
    for (I j = 0; j < l.kernel_size[1]; ++j) {
      const I high = y + l.padding[1] - j * l.dilation[1];
      if (high < 0 || high % l.step[1] != 0 || high / l.step[1] >= l.positions[1]) continue;
      const I row = ((n * l.positions[0] + deep / l.step[0]) * l.positions[1] + high / l.step[1]) *
                    l.positions[2];
      for (I k = 0; k < l.kernel_size[2]; ++k) {
        const I element = ((c * l.kernel_size[0] + i) * l.kernel_size[1] + j) * l.kernel_size[2] + k;
        const __global X *from = columns + element * l.count + row;
        const I shift = k * l.dilation[2] - l.padding[2];
        const I begin = shift < 0 ? (-shift + step - 1) / step : 0;
        const I end =
            shift >= l.size[2] ? 0 : min(l.positions[2], (l.size[2] - 1 - shift) / step + 1);
        for (I q = begin; q < end; ++q) {
          const I at = (q * step + shift) * stride;
          STORE(to, at, LOAD(to, at) + LOAD(from, q));
        }
      }
    }
  }
}
