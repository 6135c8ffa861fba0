// Distances between all rows of two batches of matrices, whose batch dimensions broadcast to those
// of `out`.

static inline ob_index matrix_place(const ob_layout out, const ob_layout layout, ob_index batch) {
  ob_index place = 0;
  const ob_index shift = out.dims - layout.dims;
  for (ob_index d = out.dims - 3; d >= 0; --d) {
    const ob_index rest = batch / out.size[d];
    if (d >= shift && layout.size[d - shift] > 1) {
      place += (batch - rest * out.size[d]) * layout.stride[d - shift];
    }
    batch = rest;
  }
  return place;
}

#if BACKWARD
// The gradient with respect to x1.
__kernel void cdist(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index column = i % columns, row = i / columns % rows1, batch = i / columns / rows1;
  const ob_index a = x1_layout.stride[x1_layout.dims - 1], b = x2_layout.stride[x2_layout.dims - 1];
  const ob_index step = x2_layout.stride[x2_layout.dims - 2];
  const V x = x1_load(matrix_place(out_layout, x1_layout, batch) +
                      row * x1_layout.stride[x1_layout.dims - 2] + column * a);
  ob_index q = matrix_place(out_layout, x2_layout, batch) + column * b;
  const ob_index first = (batch * rows1 + row) * rows2;
  V total = 0;
  for (ob_index j = 0; j < rows2; ++j, q += step) {
    total += slope(x - x2_load(q), grad_load(first + j), cdist_load(first + j), p);
  }
  out_store(ob_place(out_layout, i), total);
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
  ob_index o = matrix_place(out_layout, x1_layout, batch) + row * x1_layout.stride[x1_layout.dims - 2];
  ob_index q = matrix_place(out_layout, x2_layout, batch) + j * step;
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
    out_store(ob_place(out_layout, to + n), root(totals[n], p));
  }
}
#endif
