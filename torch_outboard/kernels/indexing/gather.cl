// Elements of `self` at the indices in `index` along one dimension. A work-item on a CPU loads
// adjacent elements of a row along the last dimension. On a GPU it loads one, so that adjacent
// work-items access adjacent memory.

#if OB_LOCAL == 1
#define OB_ADJACENT 64
#else
#define OB_ADJACENT 1
#endif

__kernel void gather(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index last = index_layout.dims - 1;
  const ob_index columns = last < 0 ? 1 : index_layout.size[last];
  const ob_index parts = (columns + OB_ADJACENT - 1) / OB_ADJACENT;
  const ob_index row = item / parts;
  const ob_index first = (item - row * parts) * OB_ADJACENT;
  const ob_index end = min(columns, first + OB_ADJACENT);
  ob_index from = 0;
  ob_index in_index = 0;
  ob_index rest = row;
  for (ob_index d = last - 1; d >= 0; --d) {
    const ob_index next = rest / index_layout.size[d];
    const ob_index at = rest - next * index_layout.size[d];
    in_index += at * index_layout.stride[d];
    if (d != dim) from += at * self_layout.stride[d];
    rest = next;
  }
  const ob_index index_next = last < 0 ? 0 : index_layout.stride[last];
  const ob_index self_next = last < 0 || dim == last ? 0 : self_layout.stride[last];
  for (ob_index c = first; c < end; ++c) {
    const ob_index location = ob_checked_index(index_load(in_index + c * index_next), n);
    if (location >= 0) {
      out_store(row * columns + c, self_load(from + c * self_next + location * stride));
    } else {
      OB_REPORT
    }
  }
}
