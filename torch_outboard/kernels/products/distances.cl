// Distances in the p-norm between rows of `columns` elements. KIND: 0, 1 and 2 for these p, 3 for p
// = infinity, 4 for any other p.

static inline V distance(const V total, const V difference, const R p) {
  const V d = fabs(difference);
#if KIND == 0
  return total + (d != 0 ? (V)1 : (V)0);
#elif KIND == 1
  return total + d;
#elif KIND == 2
  return total + d * d;
#elif KIND == 3
  return d > total || d != d ? d : total;
#else
  return total + pow(d, (V)p);
#endif
}

static inline V root(const V total, const R p) {
#if KIND == 2
  return sqrt(total);
#elif KIND == 4
  return pow(total, (V)(1 / p));
#else
  return total;
#endif
}

// The derivative of a distance with respect to one difference, times `grad`.
static inline V slope(const V difference, const V grad, const V norm, const R p) {
  const V d = fabs(difference);
  const V sign = difference > 0 ? (V)1 : (difference < 0 ? (V)-1 : (V)0);
#if KIND == 0
  return 0;
#elif KIND == 1
  return grad * sign;
#elif KIND == 2
  return norm == 0 ? (V)0 : grad * difference / norm;
#elif KIND == 3
  return d == norm ? grad * sign : (V)0;
#else
  return norm == 0 || d == 0 ? (V)0 : grad * sign * pow(d / norm, (V)(p - 1));
#endif
}

#if HAS_x1

// Distances between all rows of two batches of matrices, whose batch dimensions broadcast to those
// of `out`.

static inline ob_index matrix_offset(const ob_layout out, const ob_layout layout, ob_index batch) {
  ob_index offset = 0;
  const ob_index shift = out.dims - layout.dims;
  for (ob_index d = out.dims - 3; d >= 0; --d) {
    const ob_index rest = batch / out.size[d];
    if (d >= shift && layout.size[d - shift] > 1) {
      offset += (batch - rest * out.size[d]) * layout.stride[d - shift];
    }
    batch = rest;
  }
  return offset;
}

#if BACKWARD
// The gradient with respect to x1.
__kernel void cdist(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index column = i % columns, row = i / columns % rows1, batch = i / columns / rows1;
  const ob_index a = x1_layout.stride[x1_layout.dims - 1], b = x2_layout.stride[x2_layout.dims - 1];
  const ob_index step = x2_layout.stride[x2_layout.dims - 2];
  const V x = x1_load(matrix_offset(out_layout, x1_layout, batch) +
                      row * x1_layout.stride[x1_layout.dims - 2] + column * a);
  ob_index q = matrix_offset(out_layout, x2_layout, batch) + column * b;
  const ob_index first = (batch * rows1 + row) * rows2;
  V total = 0;
  for (ob_index j = 0; j < rows2; ++j, q += step) {
    total += slope(x - x2_load(q), grad_load(first + j), cdist_load(first + j), p);
  }
  out_store(ob_offset_of(out_layout, i), total);
}
#else
// Independent sums per work-item, to hide the latency of additions.
#define OB_ADJACENT 8
#define OB_ADD(count)                                                  \
  for (ob_index k = 0; k < columns; ++k, o += a, q += b) {             \
    const V x = x1_load(o);                                            \
    for (int n = 0; n < (count); ++n) {                                \
      totals[n] = distance(totals[n], x - x2_load(q + n * step), p);   \
    }                                                                  \
  }

__kernel void cdist(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index parts = (rows2 + OB_ADJACENT - 1) / OB_ADJACENT;
  const ob_index j = i % parts * OB_ADJACENT, row = i / parts % rows1, batch = i / parts / rows1;
  const ob_index a = x1_layout.stride[x1_layout.dims - 1], b = x2_layout.stride[x2_layout.dims - 1];
  const ob_index step = x2_layout.stride[x2_layout.dims - 2];
  ob_index o = matrix_offset(out_layout, x1_layout, batch) + row * x1_layout.stride[x1_layout.dims - 2];
  ob_index q = matrix_offset(out_layout, x2_layout, batch) + j * step;
  const int count = (int)min((ob_index)OB_ADJACENT, rows2 - j);
  V totals[OB_ADJACENT];
  for (int n = 0; n < OB_ADJACENT; ++n) totals[n] = 0;
  if (count == OB_ADJACENT) {
    OB_ADD(OB_ADJACENT)
  } else {
    OB_ADD(count)
  }
  const ob_index to = (batch * rows1 + row) * rows2 + j;
  for (int n = 0; n < count; ++n) {
    out_store(ob_offset_of(out_layout, to + n), root(totals[n], p));
  }
}
#endif

#else

// Distances between the rows i < j of one matrix, in the order of (i, j).

// The number of pairs before (i, i + 1).
static inline ob_index pairs_before(const ob_index i, const ob_index rows) {
  return i * (2 * rows - i - 1) / 2;
}

#if BACKWARD
__kernel void pdist(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index column = item % columns, row = item / columns;
  const V x = self_load(item);
  V total = 0;
  for (ob_index j = 0; j < rows; ++j) {
    if (j == row) continue;
    const ob_index low = min(j, row), high = max(j, row);
    const ob_index k = pairs_before(low, rows) + high - low - 1;
    total += slope(x - self_load(j * columns + column), grad_load(k), pdist_load(k), p);
  }
  out_store(item, total);
}
#else
__kernel void pdist(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(k)
  // The largest i with at most k pairs before it: estimated in float, then corrected.
  const float middle = rows - 0.5f;
  ob_index i = (ob_index)(middle - sqrt(fmax(middle * middle - 2.0f * k, 0.0f)));
  i = clamp(i, (ob_index)0, rows - 2);
  while (i > 0 && pairs_before(i, rows) > k) --i;
  while (i < rows - 2 && pairs_before(i + 1, rows) <= k) ++i;
  const ob_index j = k - pairs_before(i, rows) + i + 1;
  V total = 0;
  for (ob_index c = 0; c < columns; ++c) {
    total = distance(total, self_load(i * columns + c) - self_load(j * columns + c), p);
  }
  out_store(k, root(total, p));
}
#endif

#endif
