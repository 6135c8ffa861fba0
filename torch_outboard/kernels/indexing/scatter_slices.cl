// scatter and scatter_reduce for an `index` that repeats along the last dimension and so names
// whole slices. Needs those files before it. A work-group processes adjacent elements of slices,
// one slice after the other. GPU work-groups share slices, too.

#define OB_SLICE 256

#if OB_LOCAL == 1

#define OB_EACH_OF(k, count, text)                                    \
  if (out_next == 1 OB_IN_SRC(&& src_next == 1)) {                    \
    for (ob_index k = OB_LANE; k < count; k += OB_LOCAL) text(k, k, k) \
  } else {                                                            \
    for (ob_index k = OB_LANE; k < count; k += OB_LOCAL)              \
      text(k, k * out_next, k * src_next)                             \
  }
#ifndef HAS_src
#define src_next 0
#endif

__kernel void scatter_slices(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index last = index_layout.dims - 1;
  const ob_index across = index_layout.size[last];
  const ob_index parts = (across + OB_SLICE - 1) / OB_SLICE;
  const ob_index out_next = out_layout.stride[last];
  OB_IN_SRC(const ob_index src_next = src_layout.stride[last];)
  OB_FOR_GROUPS(item) {
    ob_index rest = item / parts;
    const ob_index first = (item - rest * parts) * OB_SLICE;
    const ob_index count = min((ob_index)OB_SLICE, across - first);
    ob_index in_index = 0;
    ob_index in_out = first * out_next;
    OB_IN_SRC(ob_index in_src = first * src_next;)
    for (ob_index d = last - 1; d >= 0; --d) {
      if (d == dim) continue;
      const ob_index next = rest / index_layout.size[d];
      const ob_index at = rest - next * index_layout.size[d];
      in_index += at * index_layout.stride[d];
      in_out += at * out_layout.stride[d];
      OB_IN_SRC(in_src += at * src_layout.stride[d];)
      rest = next;
    }
    for (ob_index j = 0; j < n; ++j) {
      const ob_index place = ob_checked_index(index_load(in_index + j * index_stride), size);
      if (place < 0) {
        OB_REPORT
        continue;
      }
      const ob_index to = in_out + place * out_stride;
#ifdef HAS_src
      const ob_index from = in_src + j * src_stride;
#define OB_VALUE_AT(s) src_load(from + s)
#else
#define OB_VALUE_AT(s) value
#endif
#ifdef REDUCE
#define OB_PUT(k, o, s) out_store(to + o, ob_combined(out_load(to + o), OB_VALUE_AT(s)));
#else
#define OB_PUT(k, o, s) out_store(to + o, OB_VALUE_AT(s));
#endif
      OB_EACH_OF(k, count, OB_PUT)
    }
  }
}
#else

#define OB_PLACE_OF(j) ob_checked_index(index_load(in_index + (j) * index_stride), size)
// Elements are loaded before the first store: stores wait for their loads.
#define OB_VALUES 4

__kernel void scatter_slices(OB_PARAMETERS) {
  OB_BEGIN
  PLACES_SCRATCH
  const ob_index last = index_layout.dims - 1;
  const ob_index across = index_layout.size[last];
  const ob_index parts = (across + OB_SLICE - 1) / OB_SLICE;
  const ob_index out_next = out_layout.stride[last];
  OB_IN_SRC(const ob_index src_next = src_layout.stride[last];)
  OB_FOR_GROUPS(item) {
    const ob_index range = item % ranges;
    ob_index rest = item / ranges / parts;
    const ob_index first = (item / ranges - rest * parts) * OB_SLICE;
    const ob_index elements = min((ob_index)OB_SLICE, across - first);
    ob_index in_index = 0;
    ob_index in_out = first * out_next;
    OB_IN_SRC(ob_index in_src = first * src_next;)
    for (ob_index d = last - 1; d >= 0; --d) {
      if (d == dim) continue;
      const ob_index next = rest / index_layout.size[d];
      const ob_index at = rest - next * index_layout.size[d];
      in_index += at * index_layout.stride[d];
      in_out += at * out_layout.stride[d];
      OB_IN_SRC(in_src += at * src_layout.stride[d];)
      rest = next;
    }
    PLACES_TEAMS(elements, 1)
    for (ob_index begin = 0; begin < n; begin += PLACES_AT_ONCE) {
      FIND_PLACES(begin, n, OB_PLACE_OF, range, ranges)
      for (int t = 0; t < found; t += OB_VALUES) {
        for (ob_index k = team_lane; k < elements; k += team_lanes) {
          V held[OB_VALUES];
          OB_UNROLL for (int u = 0; u < OB_VALUES; ++u) {
            if (t + u >= found || !OF_MY_TEAM(found_place[t + u], ranges)) continue;
#ifdef HAS_src
            held[u] = src_load(in_src + found_at[t + u] * src_stride + k * src_next);
#else
            held[u] = value;
#endif
          }
          OB_UNROLL for (int u = 0; u < OB_VALUES; ++u) {
            if (t + u >= found || !OF_MY_TEAM(found_place[t + u], ranges)) continue;
            const ob_index to = in_out + found_place[t + u] * out_stride + k * out_next;
#ifdef REDUCE
            out_store(to, ob_combined(out_load(to), held[u]));
#else
            out_store(to, held[u]);
#endif
          }
        }
      }
    }
    for (ob_index j = OB_LANE; range == 0 && first == 0 && j < n; j += OB_LOCAL) {
      if (OB_PLACE_OF(j) < 0) { OB_REPORT }
    }
  }
}
#endif
