// Writes elements of `src`, or a number, to the indices of `out` that `index` names along one
// dimension. A work-item processes lines of `index` in order, as on CPU: for equal indices the last
// element wins, and sums are reproducible. It processes lines adjacent in the last dimension
// together, because they share cache lines. On a GPU adjacent work-items process them, or with
// GROUPED work-groups process lines. Needs indices_in_order.cl before it.

#if OB_LOCAL == 1
#define OB_ADJACENT 32
#else
#define OB_ADJACENT 1
#endif

// Adds the offsets of line `rest` along the dimensions up to `from`, except `dim`.
#define OB_ADD_OFFSETS(from)                                \
  for (ob_index d = from; d >= 0; --d) {                    \
    if (d == dim) continue;                                 \
    const ob_index next = rest / index_layout.size[d];      \
    const ob_index at = rest - next * index_layout.size[d]; \
    in_index += at * index_layout.stride[d];                \
    in_out += at * out_layout.stride[d];                    \
    OB_IN_SRC(in_src += at * src_layout.stride[d];)         \
    rest = next;                                            \
  }

// The first of `lines` lines.
#define OB_LINES                                                                  \
  OB_ITEM(item)                                                                   \
  const ob_index last = index_layout.dims - 1;                                    \
  const ob_index across = dim >= last ? 1 : index_layout.size[last];              \
  const ob_index parts = (across + OB_ADJACENT - 1) / OB_ADJACENT;                \
  ob_index rest = item / parts;                                                   \
  const ob_index first = (item - rest * parts) * OB_ADJACENT;                     \
  const ob_index lines = min((ob_index)OB_ADJACENT, across - first);              \
  const ob_index line = rest * across + first;                                    \
  const ob_index index_next = dim >= last ? 0 : index_layout.stride[last];        \
  const ob_index out_next = dim >= last ? 0 : out_layout.stride[last];            \
  ob_index in_index = first * index_next;                                         \
  ob_index in_out = first * out_next;                                             \
  OB_IN_SRC(const ob_index src_next = dim >= last ? 0 : src_layout.stride[last];) \
  OB_IN_SRC(ob_index in_src = first * src_next;)                                  \
  OB_ADD_OFFSETS(dim >= last ? last : last - 1)

#define OB_LOCATION(j, k) \
  ob_checked_index(index_load(in_index + (j) * index_stride + (k) * index_next), size)

#ifdef HAS_src
#define OB_IN_SRC(text) text
#define OB_SOURCE(j, k) src_load(in_src + (j) * src_stride + (k) * src_next)
#else
#define OB_IN_SRC(text)
#define OB_SOURCE(j, k) value
#endif

#ifdef REDUCE

// With a reduction of `out` and the elements. REDUCE: 0 sum, 1 product, 2 maximum, 3 minimum, 4
// mean.

#define OB_COUNTS (REDUCE == 4 || !INCLUDE_SELF)

static inline V ob_combined(const V a, const V b) {
#if REDUCE == 1 && OB_COMPLEX
  return (V)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
#elif REDUCE == 1 && BOOLEAN
  return a & b;
#elif REDUCE == 1
  return a * b;
#elif REDUCE == 2
  return a > b || a != a ? a : b;
#elif REDUCE == 3
  return a < b || a != a ? a : b;
#elif BOOLEAN
  return a | b;
#else
  return a + b;
#endif
}

// The mean of `number` elements.
static inline V ob_mean(const V total, const int number) {
#if OB_FLOATING || OB_COMPLEX
  return total / (R)(number + INCLUDE_SELF);
#else
  const long whole = (long)total;
  const long quotient = whole / (number + INCLUDE_SELF);
  const int down = whole % (number + INCLUDE_SELF) < 0;
  return (V)(quotient - down);
#endif
}

#endif

// Writes element `v` of a line.
#if !defined(REDUCE)
#define OB_WRITE(at, line, location, v) out_store(at, v);
#elif OB_COUNTS
// Without INCLUDE_SELF the first element replaces the initial value.
#define OB_WRITE(at, line, location, v)                                                     \
  {                                                                                         \
    const V given = v;                                                                      \
    const int before = count[(line) * size + (location)]++;                                 \
    out_store(at, !INCLUDE_SELF && before == 0 ? given : ob_combined(out_load(at), given)); \
  }
#else
#define OB_WRITE(at, line, location, v) out_store(at, ob_combined(out_load(at), v));
#endif

#if !GROUPED
__kernel void scatter(OB_PARAMETERS) {
  OB_BEGIN
  OB_LINES
  for (ob_index j = 0; j < n; ++j) {
    for (ob_index k = 0; k < lines; ++k) {
      const ob_index location = OB_LOCATION(j, k);
      if (location < 0) {
        OB_REPORT
        continue;
      }
      const ob_index at = in_out + k * out_next + location * out_stride;
      OB_WRITE(at, line + k, location, OB_SOURCE(j, k))
    }
  }
#if defined(REDUCE) && REDUCE == 4
  for (ob_index k = 0; k < lines; ++k) {
    for (ob_index location = 0; location < size; ++location) {
      const int number = count[(line + k) * size + location];
      if (number == 0) continue;
      const ob_index at = in_out + k * out_next + location * out_stride;
      out_store(at, ob_mean(out_load(at), number));
    }
  }
#endif
}
#endif

// Long lines on a GPU. A work-group processes a line, OB_EACH elements per work-item at a time. Of
// elements with possibly equal indices the first is stored, then the others retry, so the order is
// that of the line.
//
// GROUPED: 1: one group per line; 2: groups share the indices of a line.

#if GROUPED

#define OB_EACH 4
// Indices that are equal modulo OB_SLOTS also wait for each other.
#define OB_SLOTS (GROUPED == 1 ? 4096 : 1024)
#define OB_SLOT(location) ((int)((location) & (OB_SLOTS - 1)))

// The index of element k of a work-item, or -1.
#define OB_WAITING(k) waiting[(k) * OB_LOCAL + OB_LANE]

// Stores held[k], k < OB_EACH, of all work-items at OB_WAITING(k), in the order of k.
#define OB_SERVE_IN_ORDER                                                         \
  for (int some = 1; some != 0; some = left[turn]) {                              \
    turn = 1 - turn;                                                              \
    if (OB_LANE == 0) atomic_xchg(left + turn, 0);                                \
    OB_UNROLL for (int k = 0; k < OB_EACH; ++k) {                                 \
      if (OB_WAITING(k) >= 0) slots[OB_SLOT(OB_WAITING(k))] = OB_EACH * OB_LOCAL; \
    }                                                                             \
    barrier(CLK_LOCAL_MEM_FENCE);                                                 \
    OB_UNROLL for (int k = 0; k < OB_EACH; ++k) {                                 \
      if (OB_WAITING(k) < 0) continue;                                            \
      atomic_min(slots + OB_SLOT(OB_WAITING(k)), k * OB_LOCAL + (int)OB_LANE);    \
    }                                                                             \
    barrier(CLK_LOCAL_MEM_FENCE);                                                 \
    OB_UNROLL for (int k = 0; k < OB_EACH; ++k) {                                 \
      const ob_index location = OB_WAITING(k);                                    \
      if (location < 0) continue;                                                 \
      if (slots[OB_SLOT(location)] == k * OB_LOCAL + (int)OB_LANE) {              \
        OB_WRITE((in_out + location * out_stride), line, location, held[k])       \
        OB_WAITING(k) = -1;                                                       \
      } else {                                                                    \
        atomic_inc(left + turn);                                                  \
      }                                                                           \
    }                                                                             \
    OB_BARRIER                                                                    \
  }

__kernel void scatter(OB_PARAMETERS) {
  OB_BEGIN
  __local int slots[OB_SLOTS];
  __local int left[2];
  __local ob_index waiting[OB_EACH * OB_LOCAL];
#if GROUPED == 2
  INDICES_SCRATCH
#endif
  const ob_index line = (ob_index)get_group_id(0) / ranges;
  const ob_index range = (ob_index)get_group_id(0) - line * ranges;
  const ob_index index_next = 0;
  ob_index rest = line, in_index = 0, in_out = 0;
  OB_IN_SRC(const ob_index src_next = 0;)
  OB_IN_SRC(ob_index in_src = 0;)
  OB_ADD_OFFSETS(index_layout.dims - 1)
  int turn = 0;
  V held[OB_EACH];
#if GROUPED == 1
  for (ob_index begin = 0; begin < n; begin += OB_EACH * OB_LOCAL) {
    OB_UNROLL for (int k = 0; k < OB_EACH; ++k) {
      const ob_index j = begin + k * OB_LOCAL + OB_LANE;
      OB_WAITING(k) = -1;
      if (j >= n) continue;
      const ob_index location = OB_LOCATION(j, 0);
      held[k] = OB_SOURCE(j, 0);
      OB_WAITING(k) = location;
      if (location < 0) { OB_REPORT }
    }
    OB_SERVE_IN_ORDER
  }
#else
#define OB_LOCATION_OF(j) OB_LOCATION(j, 0)
  for (ob_index begin = 0; begin < n; begin += INDICES_AT_ONCE) {
    FIND_INDICES(begin, n, OB_LOCATION_OF, range, ranges)
    for (int first = 0; first < found; first += OB_EACH * OB_LOCAL) {
      OB_UNROLL for (int k = 0; k < OB_EACH; ++k) {
        const int t = first + k * OB_LOCAL + (int)OB_LANE;
        OB_WAITING(k) = t < found ? found_index[t] : -1;
        if (t >= found) continue;
        held[k] = OB_SOURCE(found_at[t], 0);
      }
      OB_SERVE_IN_ORDER
    }
  }
  for (ob_index j = range * OB_LOCAL + OB_LANE; j < n; j += ranges * OB_LOCAL) {
    if (OB_LOCATION(j, 0) < 0) { OB_REPORT }
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

// For an `index` that repeats along the last dimension and so names whole slices: a work-group
// processes adjacent elements of slices, one slice after the other. GPU work-groups share slices,
// too.

#define OB_SLICE 256

#define OB_LOCATION_IN(j) ob_checked_index(index_load(in_index + (j) * index_stride), size)
// Elements are loaded before the first store: stores wait for their loads.
#define OB_VALUES (OB_LOCAL == 1 ? 1 : 4)
#ifdef HAS_src
#define OB_SLICE_SOURCE(t, k, next) src_load(in_src + found_at[t] * src_stride + (k) * (next))
#else
#define src_next 1
#define OB_SLICE_SOURCE(t, k, next) value
#endif

// Writes the elements found; neighbours in a slice are `out_step` and `src_step` apart.
#define OB_WRITE_FOUND(out_step, src_step)                                                     \
  for (int t = 0; t < found; t += OB_VALUES) {                                                 \
    for (ob_index k = team_lane; k < elements; k += team_lanes) {                              \
      V held[OB_VALUES];                                                                       \
      OB_UNROLL for (int u = 0; u < OB_VALUES; ++u) {                                          \
        if (t + u >= found || !OF_MY_TEAM(found_index[t + u], ranges)) continue;               \
        held[u] = OB_SLICE_SOURCE(t + u, k, src_step);                                         \
      }                                                                                        \
      OB_UNROLL for (int u = 0; u < OB_VALUES; ++u) {                                          \
        if (t + u >= found || !OF_MY_TEAM(found_index[t + u], ranges)) continue;               \
        const ob_index to = in_out + found_index[t + u] * out_stride + k * (out_step);         \
        OB_WRITE(to, 0, 0, held[u])                                                            \
      }                                                                                        \
    }                                                                                          \
  }

__kernel void scatter_slices(OB_PARAMETERS) {
  OB_BEGIN
  INDICES_SCRATCH
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
    OB_ADD_OFFSETS(last - 1)
    INDEX_TEAMS(elements, 1)
    for (ob_index begin = 0; begin < n; begin += INDICES_AT_ONCE) {
      FIND_INDICES(begin, n, OB_LOCATION_IN, range, ranges)
      if (OB_LOCAL == 1 && out_next == 1 && src_next == 1) {  // vectorized
        OB_WRITE_FOUND(1, 1)
      } else {
        OB_WRITE_FOUND(out_next, src_next)
      }
    }
    for (ob_index j = OB_LANE; range == 0 && first == 0 && j < n; j += OB_LOCAL) {
      if (OB_LOCATION_IN(j) < 0) { OB_REPORT }
    }
  }
}
