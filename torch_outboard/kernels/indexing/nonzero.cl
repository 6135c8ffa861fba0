// Places of the elements that are not zero, in row-major order: they are counted per block of
// elements, the counts are added up, and then every block knows where to write.

static inline int ob_is_set(const V v) {
#if OB_COMPLEX
  return v.x != 0 || v.y != 0;
#else
  return v != 0;
#endif
}

__kernel void count_blocks(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(b)
  const ob_index last = min((b + 1) * block, n);
  long count = 0;
  for (ob_index i = b * block; i < last; ++i) count += ob_is_set(self_load(i));
  starts[b + 1] = count;
}

__kernel void add_counts(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(only)
  long total = 0;
  for (ob_index b = 1; b <= blocks; ++b) {
    const long count = starts[b];
    starts[b] = total;
    total += count;
  }
  starts[0] = total;
}

__kernel void write_places(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(b)
  const ob_index last = min((b + 1) * block, n);
  ob_index to = (ob_index)starts[b + 1];
  for (ob_index i = b * block; i < last; ++i) {
    if (!ob_is_set(self_load(i))) continue;
    ob_index rest = i;
    for (ob_index d = dims - 1; d >= 0; --d) {
      const ob_index next = rest / size.at[d];
      out[to * out_layout.stride[0] + d * out_layout.stride[1]] = rest - next * size.at[d];
      rest = next;
    }
    ++to;
  }
}
