// Writes elements of `values`, or its only one, to slices of `out` at `index` along one dimension;
// negative indices count from the end. `after`: contiguous elements of a slice. ACCUMULATE: adds.
//
// `block` indices are processed in order: for equal ones the last value wins, and sums are
// reproducible. Blocks are unordered.
//
// ORDERED: GPU work-groups share all indices, each in its order. Needs indices_in_order.cl before
// it.

#if ACCUMULATE
#define OB_PUT(at, value) out_store(at, out_load(at) + (value))
#else
#define OB_PUT(at, value) out_store(at, value)
#endif

// Elements `first` to `end` of slice `from` that belong to this work-item.
#define OB_PUT_SLICE(to, from, lane, lanes)                                           \
  if (single_value) {                                                                 \
    for (ob_index k = first + (lane); k < end; k += (lanes)) {                        \
      OB_PUT((to) * after + k, values_load(0));                                       \
    }                                                                                 \
  } else {                                                                            \
    for (ob_index k = first + (lane); k < end; k += (lanes)) {                        \
      OB_PUT((to) * after + k, values_load((from) * after + k));                      \
    }                                                                                 \
  }

// Processes `part` of all blocks of indices.
#define OB_PUT_BLOCK(part, lane, lanes)                                \
  const ob_index blocks = (count + block - 1) / block;                 \
  const ob_index outer = (part) / blocks;                              \
  const ob_index begin = ((part) - outer * blocks) * block;            \
  for (ob_index j = begin; j < min(begin + block, count); ++j) {       \
    const ob_index location = ob_wrapped_index(index_load(j), n);      \
    if (location < 0) {                                                \
      OB_REPORT                                                        \
      continue;                                                        \
    }                                                                  \
    OB_PUT_SLICE(outer * n + location, outer * count + j, lane, lanes) \
  }

// One work-item per block.
__kernel void index_put(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index first = 0, end = after;
  OB_PUT_BLOCK(item, 0, 1)
}

// A work-group processes adjacent elements of the slices.
#define OB_SLICE 256

#if ORDERED
#define OB_WRAPPED(k) ob_wrapped_index(index_load(k), n)
// Values are loaded before the first store: stores wait for their loads.
#define OB_VALUES 4

__kernel void index_put_slices(OB_PARAMETERS) {
  OB_BEGIN
  INDICES_SCRATCH
  const ob_index parts = (after + OB_SLICE - 1) / OB_SLICE;
  OB_FOR_GROUPS(item) {
    const ob_index range = item % ranges, outer = item / ranges / parts;
    const ob_index first = item / ranges % parts * OB_SLICE, end = min(first + OB_SLICE, after);
    INDEX_TEAMS(end - first, 1)
    for (ob_index begin = 0; begin < count; begin += INDICES_AT_ONCE) {
      FIND_INDICES(begin, count, OB_WRAPPED, range, ranges)
      for (int t = 0; t < found; t += OB_VALUES) {
        for (ob_index k = first + team_lane; k < end; k += team_lanes) {
          V held[OB_VALUES];
          OB_UNROLL for (int u = 0; u < OB_VALUES; ++u) {
            if (t + u >= found || !OF_MY_TEAM(found_index[t + u], ranges)) continue;
            held[u] =
                values_load(single_value ? 0 : (outer * count + found_at[t + u]) * after + k);
          }
          OB_UNROLL for (int u = 0; u < OB_VALUES; ++u) {
            if (t + u >= found || !OF_MY_TEAM(found_index[t + u], ranges)) continue;
            OB_PUT(((outer * n + found_index[t + u]) * after + k), held[u]);
          }
        }
      }
    }
    for (ob_index k = OB_LANE; item == 0 && k < count; k += OB_LOCAL) {
      if (OB_WRAPPED(k) < 0) { OB_REPORT }
    }
  }
}
#else
__kernel void index_put_slices(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index parts = (after + OB_SLICE - 1) / OB_SLICE;
  OB_FOR_GROUPS(item) {
    const ob_index first = item % parts * OB_SLICE;
    const ob_index end = min(first + OB_SLICE, after);
    OB_PUT_BLOCK(item / parts, OB_LANE, OB_LOCAL)
  }
}
#endif
