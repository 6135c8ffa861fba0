// Elements of `self` at other places: element c of `out` along a dimension is element f(c) of
// `self`, or `value` where that lies outside.
// MODE: 0 shifted (constant padding), 1 reflected at the ends, 2 clamped to the ends, 3 periodic,
// 4 reversed in the dimensions with a flag.

static inline ob_index ob_source(const ob_index c, const ob_index n, const ob_index shift) {
#if MODE == 1
  const ob_index at = c - shift;
  return at < 0 ? -at : (at >= n ? 2 * n - 2 - at : at);
#elif MODE == 2
  return clamp(c - shift, (ob_index)0, n - 1);
#elif MODE == 3
  const ob_index at = (c - shift) % n;
  return at < 0 ? at + n : at;
#elif MODE == 4
  return shift ? n - 1 - c : c;
#else
  return c - shift;
#endif
}

static inline ob_index ob_shift(const ob_list amounts, const ob_list along, const ob_index count,
                                const ob_index d, const ob_index dims) {
#if MODE >= 3
  // Amounts belong to the dimensions in a second list.
  ob_index total = 0;
  for (ob_index k = 0; k < count; ++k) {
    if (along.at[k] == d || along.at[k] + dims == d) total += amounts.at[k];
  }
  return total;
#else
  // Two amounts per dimension, from the last one on.
  return amounts.at[2 * (dims - 1 - d)];
#endif
}

__kernel void remap(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  ob_index rest = i;
  ob_index from = 0;
  int inside = 1;
  for (ob_index d = self_layout.dims - 1; d >= 0; --d) {
    const ob_index next = rest / out_layout.size[d];
    const ob_index c = rest - next * out_layout.size[d];
    const ob_index n = self_layout.size[d];
    const ob_index at = ob_source(c, n, ob_shift(amounts, along, count, d, self_layout.dims));
    inside &= at >= 0 && at < n;
    from += at * self_layout.stride[d];
    rest = next;
  }
  const ob_index to = ob_place(out_layout, i);
#if MODE == 0
  out_store(to, inside ? self_load(from) : value);
#else
  if (inside) out_store(to, self_load(from));
#endif
}
