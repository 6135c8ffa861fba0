// Elements of `src`, or a number, go to the places of `out` that `index` names along one dimension.
// One work item takes one line of `index` in order, as CPU does: the last of several elements for
// one place wins, and sums are the same at every run.

#define OB_LINES                                                        \
  OB_ITEM(line)                                                         \
  ob_index rest = line;                                                 \
  ob_index in_index = 0;                                                \
  ob_index in_out = 0;                                                  \
  OB_IN_SRC(ob_index in_src = 0;)                                       \
  for (ob_index d = index_layout.dims - 1; d >= 0; --d) {               \
    if (d == dim) continue;                                             \
    const ob_index next = rest / index_layout.size[d];                  \
    const ob_index at = rest - next * index_layout.size[d];             \
    in_index += at * index_layout.stride[d];                            \
    in_out += at * out_layout.stride[d];                                \
    OB_IN_SRC(in_src += at * src_layout.stride[d];)                     \
    rest = next;                                                        \
  }

#define OB_PLACE(j) (index_load(in_index + (j) * index_stride))

#ifdef HAS_src
#define OB_IN_SRC(text) text
#define OB_SOURCE(j) src_load(in_src + (j) * src_stride)
#else
#define OB_IN_SRC(text)
#define OB_SOURCE(j) value
#endif

__kernel void scatter(OB_PARAMETERS) {
  OB_BEGIN
  OB_LINES
  for (ob_index j = 0; j < n; ++j) {
    const ob_index place = OB_PLACE(j);
    if (place >= 0 && place < size) {
      out_store(in_out + place * out_stride, OB_SOURCE(j));
    } else {
      OB_REPORT
    }
  }
}
