// Moved elements: element c of `out` along a dimension is element f(c) of `self`, or `value` if
// that is outside. MODE: 0 shifted (constant padding), 1 reflected at the ends, 2 clamped to the
// ends, 3 periodic, 4 reversed in the dimensions with a flag.

static inline ob_index ob_source(const ob_index c, const ob_index n, const ob_index shift) {
#if MODE == 1
  const ob_index at = c - shift;
  return at < 0 ? -at : (at >= n ? 2 * n - 2 - at : at);
#elif MODE == 2
  return clamp(c - shift, (ob_index)0, n - 1);
#elif MODE == 3
  return c < shift ? c - shift + n : c - shift;  // 0 <= shift < n
#elif MODE == 4
  return shift ? n - 1 - c : c;
#else
  return c - shift;
#endif
}

static inline ob_index ob_shift(const ob_list amounts, const ob_list along, const ob_index count,
                                const ob_index d, const ob_index dims, const ob_index n) {
#if MODE >= 3
  // Amounts belong to the dimensions in a second list.
  ob_index total = 0;
  for (ob_index k = 0; k < count; ++k) {
    if (along.at[k] == d || along.at[k] + dims == d) total += amounts.at[k];
  }
#if MODE == 3
  total %= n;
  if (total < 0) total += n;
#endif
  return total;
#else
  // Two amounts per dimension, from the last one on.
  return amounts.at[2 * (dims - 1 - d)];
#endif
}

// A work-group computes rows along the last dimension.
__kernel void remap(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index last = self_layout.dims - 1;
  const ob_index row_size = last < 0 ? 1 : out_layout.size[last];
  const ob_index n = last < 0 ? 1 : self_layout.size[last];
  const ob_index stride = last < 0 ? 1 : self_layout.stride[last];
  const ob_index out_stride = last < 0 ? 1 : out_layout.stride[last];
  const ob_index shift =
      last < 0 || n == 0 ? 0 : ob_shift(amounts, along, count, last, self_layout.dims, n);
  OB_FOR_GROUPS(row) {
    ob_index rest = row;
    ob_index from = 0;
    ob_index to = 0;
    int inside = 1;
    for (ob_index d = last - 1; d >= 0; --d) {
      const ob_index next = rest / out_layout.size[d];
      const ob_index c = rest - next * out_layout.size[d];
      const ob_index size = self_layout.size[d];
      const ob_index at =
          ob_source(c, size, ob_shift(amounts, along, count, d, self_layout.dims, size));
      inside &= at >= 0 && at < size;
      from += at * self_layout.stride[d];
      to += c * out_layout.stride[d];
      rest = next;
    }
    for (ob_index c = OB_LANE; c < row_size; c += OB_LOCAL) {
      const ob_index at = ob_source(c, n, shift);
      const int here = inside && at >= 0 && at < n;
#if MODE == 0
      out_store(to + c * out_stride, here ? self_load(from + at * stride) : value);
#else
      if (here) out_store(to + c * out_stride, self_load(from + at * stride));
#endif
    }
  }
}
