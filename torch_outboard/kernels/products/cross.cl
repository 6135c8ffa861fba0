// Cross products of vectors of three elements along one dimension; other sizes are 1 or equal.

// Offset of the vector of work-item i; `dim`: the vectors' dimension.
static inline ob_index vector_location(const ob_layout out, const ob_layout layout, ob_index i,
                                    const ob_index dim) {
  ob_index location = 0;
  for (ob_index d = out.dims - 1; d >= 0; --d) {
    if (d == dim) continue;
    const ob_index rest = i / out.size[d];
    if (layout.size[d] > 1) location += (i - rest * out.size[d]) * layout.stride[d];
    i = rest;
  }
  return location;
}

__kernel void cross_product(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index p = vector_location(out_layout, self_layout, i, d);
  const ob_index q = vector_location(out_layout, other_layout, i, d);
  const ob_index r = vector_location(out_layout, out_layout, i, d);
  const ob_index u = self_layout.stride[d], v = other_layout.stride[d], w = out_layout.stride[d];
  const V x0 = self_load(p), x1 = self_load(p + u), x2 = self_load(p + 2 * u);
  const V y0 = other_load(q), y1 = other_load(q + v), y2 = other_load(q + 2 * v);
  out_store(r, ob_mul(x1, y2) - ob_mul(x2, y1));
  out_store(r + w, ob_mul(x2, y0) - ob_mul(x0, y2));
  out_store(r + 2 * w, ob_mul(x0, y1) - ob_mul(x1, y0));
}
