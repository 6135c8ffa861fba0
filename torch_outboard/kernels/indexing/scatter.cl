// Writes elements of `src`, or a number, to the indices of `out` that `index` names along one
// dimension. A work-item processes lines of `index` in order, as on CPU: for equal indices the last
// element wins, and sums are reproducible. It processes lines adjacent in the last dimension
// together, because they share cache lines. On a GPU adjacent work-items process them; GROUPED:
// scatter_lines.cl processes lines.

#if OB_LOCAL == 1
#define OB_ADJACENT 32
#else
#define OB_ADJACENT 1
#endif

// The first of `lines` lines.
#define OB_LINES                                                        \
  OB_ITEM(item)                                                         \
  const ob_index last = index_layout.dims - 1;                          \
  const ob_index across = dim >= last ? 1 : index_layout.size[last];    \
  const ob_index parts = (across + OB_ADJACENT - 1) / OB_ADJACENT;      \
  ob_index rest = item / parts;                                         \
  const ob_index first = (item - rest * parts) * OB_ADJACENT;           \
  const ob_index lines = min((ob_index)OB_ADJACENT, across - first);    \
  const ob_index line = rest * across + first;                          \
  const ob_index index_next = dim >= last ? 0 : index_layout.stride[last]; \
  const ob_index out_next = dim >= last ? 0 : out_layout.stride[last];  \
  ob_index in_index = first * index_next;                               \
  ob_index in_out = first * out_next;                                   \
  OB_IN_SRC(const ob_index src_next = dim >= last ? 0 : src_layout.stride[last];) \
  OB_IN_SRC(ob_index in_src = first * src_next;)                        \
  for (ob_index d = dim >= last ? last : last - 1; d >= 0; --d) {       \
    if (d == dim) continue;                                             \
    const ob_index next = rest / index_layout.size[d];                  \
    const ob_index at = rest - next * index_layout.size[d];             \
    in_index += at * index_layout.stride[d];                            \
    in_out += at * out_layout.stride[d];                                \
    OB_IN_SRC(in_src += at * src_layout.stride[d];)                     \
    rest = next;                                                        \
  }

#define OB_PLACE(j, k) \
  ob_checked_index(index_load(in_index + (j) * index_stride + (k) * index_next), size)

#ifdef HAS_src
#define OB_IN_SRC(text) text
#define OB_SOURCE(j, k) src_load(in_src + (j) * src_stride + (k) * src_next)
#else
#define OB_IN_SRC(text)
#define OB_SOURCE(j, k) value
#endif

#if !GROUPED
__kernel void scatter(OB_PARAMETERS) {
  OB_BEGIN
  OB_LINES
  for (ob_index j = 0; j < n; ++j) {
    for (ob_index k = 0; k < lines; ++k) {
      const ob_index place = OB_PLACE(j, k);
      if (place >= 0) {
        out_store(in_out + k * out_next + place * out_stride, OB_SOURCE(j, k));
      } else {
        OB_REPORT
      }
    }
  }
}
#endif
