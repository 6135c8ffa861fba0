// States of running sums (SCAN 0), products (1), logarithms of sums of exponentials (2), maxima (3)
// and minima (4). join(a, b): state of the elements of a followed by those of b.

#if SCAN == 0 && OB_FLOATING && OB_LOCAL == 1 && defined(cl_khr_fp64)
// CPU: sums in float64, as in the CPU kernel.
typedef struct {
  double value;
} State;
static inline State join(const State a, const State b) { return (State){a.value + b.value}; }
#define STATE_OF(x, i) ((State){(double)(x)})
#define RESULT(s) ((V)(s).value)
#elif SCAN == 0 && (OB_FLOATING || OB_COMPLEX)
// The sum and its rounding error: CPU adds float32 in float64.
typedef struct {
  V value, rest;
} State;
static inline State join(const State a, const State b) {
  State s;
  s.value = a.value + b.value;
  const V part = s.value - a.value;
  s.rest = a.rest + b.rest + ((a.value - (s.value - part)) + (b.value - part));
  // 0 for infinities.
#if !OB_COMPLEX
  s.rest = s.rest - s.rest == 0 ? s.rest : 0;
#else
  s.rest.x = s.rest.x - s.rest.x == 0 ? s.rest.x : 0;
  s.rest.y = s.rest.y - s.rest.y == 0 ? s.rest.y : 0;
#endif
  return s;
}
#define STATE_OF(x, i) ((State){(x), (V)(0)})
#define RESULT(s) ((s).value + (s).rest)
#elif SCAN == 3 || SCAN == 4
// Of equal elements the later one counts; NaN is the largest.
typedef struct {
  V value;
  ob_index rest;
} State;
static inline State join(const State a, const State b) {
#if SCAN == 3
  const bool later = b.value != b.value || (a.value == a.value && b.value >= a.value);
#else
  const bool later = b.value != b.value || (a.value == a.value && b.value <= a.value);
#endif
  return later ? b : a;
}
#define STATE_OF(x, i) ((State){(x), (i)})
#define RESULT(s) (s).value
#elif SCAN == 2 && !OB_COMPLEX
// The largest element, and the sum of exponentials of the differences to it.
typedef struct {
  V value, rest;
} State;
static inline State join(const State a, const State b) {
  const V largest = a.value > b.value || a.value != a.value ? a.value : b.value;
  State s;
  s.value = largest;
  s.rest = (a.value == largest ? a.rest : a.rest * exp(a.value - largest)) +
           (b.value == largest ? b.rest : b.rest * exp(b.value - largest));
  return s;
}
#define STATE_OF(x, i) ((State){(x), (V)(1)})
#define RESULT(s) (s.value + log(s.rest))
#else
typedef struct {
  V value;
} State;
static inline State join(const State a, const State b) {
#if SCAN == 0
  return (State){a.value + b.value};
#elif SCAN == 2
  return (State){JOINED_LOGARITHMS(a.value, b.value)};
#else
  return (State){ob_mul(a.value, b.value)};
#endif
}
#define STATE_OF(x, i) ((State){(x)})
#define RESULT(s) (s).value
#endif

// Elements in the dtype of the result.
#if OB_COMPLEX
#define ELEMENT(at) self_load(at)
#else
#define ELEMENT(at) (V)self_load(at)
#endif

// Offsets of the results of a row.
#if SCAN == 3 || SCAN == 4
typedef struct {
  ob_index values, indices;
} Line;
#define LINE_STEPS                                          \
  const ob_index values_step = values_layout.stride[d];     \
  const ob_index indices_step = indices_layout.stride[d];
#define LINE_OF(row, start) \
  ((Line){ob_line(values_layout, d, row), ob_line(indices_layout, d, row)})
#define STORE(line, i, s)                                  \
  {                                                        \
    values_store((line.values + (i) * values_step), (s).value);  \
    indices_store((line.indices + (i) * indices_step), (s).rest); \
  }
#else
typedef struct {
  ob_index out;
} Line;
#define LINE_STEPS
#define LINE_OF(row, start) ((Line){start})
#define STORE(line, i, s) out_store((line.out + (i) * inner), RESULT(s));
#endif

#if IN_BLOCKS

// Scans of long rows with element stride `inner`, in blocks of `block` elements, a work-group each:
// first the state of whole blocks, then each block with the states before it.

#define PARTS ((__global State *)part_states)

#if OB_LOCAL == 1
// CPU: several blocks at once, whose elements are independent. Some elements of each are loaded and
// stored at a time, since blocks may be a multiple of 4 KiB apart and evict each other from the
// cache. Sums have 64 bits: fewer of them fit into registers.
#define BLOCKS_AT_ONCE (SCAN == 0 ? 4 : 8)
#define TILE 16

// `START(k, row)` follows the state of the first element of a block, `EACH(k, i, s)` that of
// element i, and FINISH(K) all of them.
#define SCAN_SOME(K, START, EACH)                                                       \
  for (; item + K <= end; item += K) {                                                  \
    State s[K];                                                                         \
    ob_index start[K], first[K], length[K], common = block;                             \
    Line line[K];                                                                       \
    for (int k = 0; k < K; ++k) {                                                       \
      const ob_index row = (item + k) / blocks;                                         \
      start[k] = row / inner * inner * n + row % inner;                                 \
      line[k] = LINE_OF(row, start[k]);                                                 \
      first[k] = (item + k - row * blocks) * block;                                     \
      length[k] = min(block, n - first[k]);                                             \
      common = min(common, length[k]);                                                  \
      s[k] = STATE_OF(ELEMENT(start[k] + first[k] * inner), first[k]);                  \
      START(k, row)                                                                     \
    }                                                                                   \
    ob_index i = 1;                                                                     \
    for (; i + TILE <= common; i += TILE) {                                             \
      V x[K][TILE];                                                                     \
      State all[K][TILE];                                                               \
      for (int k = 0; k < K; ++k) {                                                     \
        for (int j = 0; j < TILE; ++j) {                                                \
          x[k][j] = ELEMENT(start[k] + (first[k] + i + j) * inner);                     \
        }                                                                               \
      }                                                                                 \
      for (int j = 0; j < TILE; ++j) {                                                  \
        for (int k = 0; k < K; ++k) {                                                   \
          s[k] = join(s[k], STATE_OF(x[k][j], first[k] + i + j));                       \
          all[k][j] = s[k];                                                             \
        }                                                                               \
      }                                                                                 \
      for (int k = 0; k < K; ++k) {                                                     \
        for (int j = 0; j < TILE; ++j) EACH(k, first[k] + i + j, all[k][j])             \
      }                                                                                 \
    }                                                                                   \
    for (; i < common; ++i) {                                                           \
      for (int k = 0; k < K; ++k) {                                                     \
        const ob_index at = first[k] + i;                                               \
        s[k] = join(s[k], STATE_OF(ELEMENT(start[k] + at * inner), at));                \
      }                                                                                 \
      for (int k = 0; k < K; ++k) EACH(k, first[k] + i, s[k])                           \
    }                                                                                   \
    for (int k = 0; k < K; ++k) {                                                       \
      for (ob_index at = first[k] + i; at < first[k] + length[k]; ++at) {               \
        s[k] = join(s[k], STATE_OF(ELEMENT(start[k] + at * inner), at));                \
        EACH(k, at, s[k])                                                               \
      }                                                                                 \
    }                                                                                   \
    FINISH(K)                                                                           \
  }

#define SCAN_ALL(START, EACH)                                                          \
  const ob_index groups = get_num_groups(0), least = ob_items < 64 ? 1 : BLOCKS_AT_ONCE; \
  const ob_index part = max((ob_items + groups - 1) / groups, least);                  \
  ob_index item = get_group_id(0) * part;                                              \
  const ob_index end = min(item + part, ob_items);                                     \
  SCAN_SOME(BLOCKS_AT_ONCE, START, EACH)                                               \
  SCAN_SOME(1, START, EACH)

__kernel void scan_parts(OB_PARAMETERS) {
  OB_BEGIN
#define START(k, row)
#define EACH(k, at, s) {}
#define FINISH(K) for (int k = 0; k < K; ++k) PARTS[item + k] = s[k];
  SCAN_ALL(START, EACH)
#undef START
#undef EACH
#undef FINISH
}

__kernel void scan(OB_PARAMETERS) {
  OB_BEGIN
  LINE_STEPS
#define START(k, row)                                                          \
  if (first[k] > 0) {                                                          \
    State before = PARTS[row * blocks];                                        \
    for (ob_index other = row * blocks + 1; other < item + k; ++other) {       \
      before = join(before, PARTS[other]);                                     \
    }                                                                          \
    s[k] = join(before, s[k]);                                                 \
  }                                                                            \
  STORE(line[k], first[k], s[k])
#define EACH(k, at, state) STORE(line[k], (at), state)
#define FINISH(K)
  SCAN_ALL(START, EACH)
}
#else
// A work-group scans its block by tiles. Elements pass through local memory, so that adjacent
// work-items access adjacent elements, and each scans SCAN_EACH contiguous ones.
#define SCAN_EACH (OB_COMPLEX ? 2 : 4)
#define SCAN_TILE (SCAN_EACH * OB_LOCAL)
// One element of padding per 32: work-items SCAN_EACH apart access different banks.
#define SCAN_AT(i) ((i) + (i) / 32)

#define SCAN_SCRATCH                                     \
  __local State tile[SCAN_AT(SCAN_TILE)];                \
  __local State totals[2 * OB_LOCAL];

#define BLOCK                                                              \
  const ob_index row = item / blocks, which = item - row * blocks;         \
  const ob_index start = row / inner * inner * n + row % inner;            \
  const ob_index first = which * block, last = min(first + block, n);

// Scans all tiles and calls USE(i, s) with the state at element i. `before`: the state before the
// block, valid if `some`.
#define SCAN_TILES(USE)                                                                      \
  for (ob_index from = first; from < last; from += SCAN_TILE) {                              \
    const int count = (int)min((ob_index)SCAN_TILE, last - from);                            \
    for (int slot = OB_LANE; slot < count; slot += OB_LOCAL) {                               \
      tile[SCAN_AT(slot)] = STATE_OF(ELEMENT(start + (from + slot) * inner), from + slot);   \
    }                                                                                        \
    barrier(CLK_LOCAL_MEM_FENCE);                                                            \
    const int own = (int)OB_LANE * SCAN_EACH;                                                \
    State s[SCAN_EACH];                                                                      \
    s[0] = tile[SCAN_AT(min(own, count - 1))];                                               \
    OB_UNROLL for (int k = 1; k < SCAN_EACH; ++k) {                                          \
      s[k] = s[k - 1];                                                                       \
      if (own + k < count) s[k] = join(s[k], tile[SCAN_AT(own + k)]);                        \
    }                                                                                        \
    State mine = s[SCAN_EACH - 1];                                                           \
    int now = 0;                                                                             \
    totals[OB_LANE] = mine;                                                                  \
    barrier(CLK_LOCAL_MEM_FENCE);                                                            \
    for (int step = 1; step < OB_LOCAL; step *= 2) {                                         \
      if (OB_LANE >= step) mine = join(totals[now + OB_LANE - step], mine);                  \
      now = OB_LOCAL - now;                                                                  \
      totals[now + OB_LANE] = mine;                                                          \
      barrier(CLK_LOCAL_MEM_FENCE);                                                          \
    }                                                                                        \
    if (OB_LANE > 0 || some) {                                                               \
      const State others = totals[now + max(OB_LANE, (ob_index)1) - 1];                      \
      const State all = OB_LANE == 0 ? before : some ? join(before, others) : others;        \
      OB_UNROLL for (int k = 0; k < SCAN_EACH; ++k) s[k] = join(all, s[k]);                  \
    }                                                                                        \
    const State whole = totals[now + (count - 1) / SCAN_EACH];                               \
    before = some ? join(before, whole) : whole;                                             \
    some = true;                                                                             \
    OB_UNROLL for (int k = 0; k < SCAN_EACH; ++k) {                                          \
      if (own + k < count) tile[SCAN_AT(own + k)] = s[k];                                    \
    }                                                                                        \
    barrier(CLK_LOCAL_MEM_FENCE);                                                            \
    for (int slot = OB_LANE; slot < count; slot += OB_LOCAL) {                               \
      USE((from + slot), tile[SCAN_AT(slot)])                                                \
    }                                                                                        \
  }

__kernel void scan_parts(OB_PARAMETERS) {
  OB_BEGIN
  SCAN_SCRATCH
#define NOTHING(i, s)
  OB_FOR_GROUPS(item) {
    BLOCK
    State before;
    bool some = false;
    SCAN_TILES(NOTHING)
    if (OB_LANE == 0) PARTS[item] = before;
  }
}

__kernel void scan(OB_PARAMETERS) {
  OB_BEGIN
  LINE_STEPS
  SCAN_SCRATCH
#define STORE_IN_LINE(i, s) STORE(line, i, s)
  OB_FOR_GROUPS(item) {
    BLOCK
    const Line line = LINE_OF(row, start);
    State before = PARTS[row * blocks];
    for (ob_index other = row * blocks + 1; other < item; ++other) {
      before = join(before, PARTS[other]);
    }
    bool some = which > 0;
    SCAN_TILES(STORE_IN_LINE)
  }
}
#endif

#else

// One work-item per line of n elements with stride `inner`.

__kernel void scan_parts(OB_PARAMETERS) {}

__kernel void scan(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  LINE_STEPS
  const ob_index first = item / inner * inner * n + item % inner;
  const Line line = LINE_OF(item, first);
  State s = STATE_OF(ELEMENT(first), 0);
  STORE(line, 0, s)
  for (ob_index i = 1; i < n; ++i) {
    s = join(s, STATE_OF(ELEMENT(first + i * inner), i));
    STORE(line, i, s)
  }
}

#endif
