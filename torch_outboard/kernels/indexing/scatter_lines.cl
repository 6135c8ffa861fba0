// scatter and scatter_reduce for long lines on a GPU. A work-group processes a line, OB_EACH
// elements per work-item at a time. Of elements with possibly equal indices the first is stored,
// then the others retry, so the order is that of the line. Needs places_in_order.cl, scatter.cl
// and, if used, scatter_reduce.cl before it.
//
// GROUPED: 1: one group per line; 2: groups share the indices of a line.

#if GROUPED

#ifdef REDUCE
#define OB_KERNEL scatter_reduce
#else
#define OB_KERNEL scatter
#endif

#define OB_EACH 4
// Indices that are equal modulo OB_SLOTS also wait for each other.
#define OB_SLOTS (GROUPED == 1 ? 4096 : 1024)
#define OB_SLOT(place) ((int)((place) & (OB_SLOTS - 1)))

#if !defined(REDUCE)
#define OB_SERVE(at, place, held) out_store(at, held);
#elif OB_COUNTS
// Without INCLUDE_SELF the first element replaces the initial value.
#define OB_SERVE(at, place, held)                                                        \
  {                                                                                      \
    const int before = count[line * size + place]++;                                     \
    out_store(at, !INCLUDE_SELF && before == 0 ? held : ob_combined(out_load(at), held)); \
  }
#else
#define OB_SERVE(at, place, held) out_store(at, ob_combined(out_load(at), held));
#endif

// The index of element k of a work-item, or -1.
#define OB_WAITING(k) waiting[(k) * OB_LOCAL + OB_LANE]

// Stores held[k], k < OB_EACH, of all work-items at OB_WAITING(k), in the order of k.
#define OB_SERVE_IN_ORDER                                                                 \
  for (int some = 1; some != 0; some = left[turn]) {                                      \
    turn = 1 - turn;                                                                      \
    if (OB_LANE == 0) atomic_xchg(left + turn, 0);                                        \
    OB_UNROLL for (int k = 0; k < OB_EACH; ++k) {                                         \
      if (OB_WAITING(k) >= 0) slots[OB_SLOT(OB_WAITING(k))] = OB_EACH * OB_LOCAL;         \
    }                                                                                     \
    barrier(CLK_LOCAL_MEM_FENCE);                                                         \
    OB_UNROLL for (int k = 0; k < OB_EACH; ++k) {                                         \
      if (OB_WAITING(k) < 0) continue;                                                    \
      atomic_min(slots + OB_SLOT(OB_WAITING(k)), k * OB_LOCAL + (int)OB_LANE);            \
    }                                                                                     \
    barrier(CLK_LOCAL_MEM_FENCE);                                                         \
    OB_UNROLL for (int k = 0; k < OB_EACH; ++k) {                                         \
      const ob_index place = OB_WAITING(k);                                               \
      if (place < 0) continue;                                                            \
      if (slots[OB_SLOT(place)] == k * OB_LOCAL + (int)OB_LANE) {                         \
        OB_SERVE((in_out + place * out_stride), place, held[k])                           \
        OB_WAITING(k) = -1;                                                               \
      } else {                                                                            \
        atomic_inc(left + turn);                                                          \
      }                                                                                   \
    }                                                                                     \
    OB_BARRIER                                                                            \
  }

__kernel void OB_KERNEL(OB_PARAMETERS) {
  OB_BEGIN
  __local int slots[OB_SLOTS];
  __local int left[2];
  __local ob_index waiting[OB_EACH * OB_LOCAL];
#if GROUPED == 2
  PLACES_SCRATCH
#endif
  const ob_index line = (ob_index)get_group_id(0) / ranges;
  const ob_index range = (ob_index)get_group_id(0) - line * ranges;
  const ob_index index_next = 0;
  ob_index rest = line, in_index = 0, in_out = 0;
  OB_IN_SRC(const ob_index src_next = 0;)
  OB_IN_SRC(ob_index in_src = 0;)
  for (ob_index d = index_layout.dims - 1; d >= 0; --d) {
    if (d == dim) continue;
    const ob_index next = rest / index_layout.size[d];
    const ob_index at = rest - next * index_layout.size[d];
    in_index += at * index_layout.stride[d];
    in_out += at * out_layout.stride[d];
    OB_IN_SRC(in_src += at * src_layout.stride[d];)
    rest = next;
  }
  int turn = 0;
  V held[OB_EACH];
#if GROUPED == 1
  for (ob_index begin = 0; begin < n; begin += OB_EACH * OB_LOCAL) {
    OB_UNROLL for (int k = 0; k < OB_EACH; ++k) {
      const ob_index j = begin + k * OB_LOCAL + OB_LANE;
      OB_WAITING(k) = -1;
      if (j >= n) continue;
      const ob_index place = OB_PLACE(j, 0);
      held[k] = OB_SOURCE(j, 0);
      OB_WAITING(k) = place;
      if (place < 0) { OB_REPORT }
    }
    OB_SERVE_IN_ORDER
  }
#else
#define OB_PLACE_OF(j) OB_PLACE(j, 0)
  for (ob_index begin = 0; begin < n; begin += PLACES_AT_ONCE) {
    FIND_PLACES(begin, n, OB_PLACE_OF, range, ranges)
    for (int first = 0; first < found; first += OB_EACH * OB_LOCAL) {
      OB_UNROLL for (int k = 0; k < OB_EACH; ++k) {
        const int t = first + k * OB_LOCAL + (int)OB_LANE;
        OB_WAITING(k) = t < found ? found_place[t] : -1;
        if (t >= found) continue;
        held[k] = OB_SOURCE(found_at[t], 0);
      }
      OB_SERVE_IN_ORDER
    }
  }
  for (ob_index j = range * OB_LOCAL + OB_LANE; j < n; j += ranges * OB_LOCAL) {
    if (OB_PLACE(j, 0) < 0) { OB_REPORT }
  }
#endif
#if defined(REDUCE) && REDUCE == 4
  for (ob_index at = OB_LANE; at < size; at += OB_LOCAL) {
    const int number = (at & (ranges - 1)) == range ? count[line * size + at] : 0;
    if (number == 0) continue;
    out_store((in_out + at * out_stride), ob_mean(out_load(in_out + at * out_stride), number));
  }
#endif
}

#endif
