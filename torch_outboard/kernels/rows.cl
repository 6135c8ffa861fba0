// Loops of a work-group over a row of n elements. BODY(type, load, store) is expanded with (T1,
// load_vector, store_vector) for vectors, T1 being T, and with (V, load, store) for the remaining
// scalars; `i` is the index. Accumulators have a part per `type`: ROW_VALUE(sum, 0) declares the
// parts, a body changes sum_##type, and ROW_SUM(sum) and ROW_MAX(sum) reduce them for all
// work-items. SUM_ROW(sum, BODY) and SUM_RUNS(sum, first, BODY) are the loops for one sum, and keep
// its digits in long rows: they set partial sums aside.

// Several names of one type: several accumulators hide the latency of additions.
typedef T T1;
typedef T T2;
typedef T T3;
typedef T T4;
#define ROW_VALUE(name, initial)                      \
  T1 name##_T1 = C(initial), name##_T2 = C(initial);  \
  T1 name##_T3 = C(initial), name##_T4 = C(initial);  \
  T1 name##_aside = C(0);                             \
  V name##_V = (initial), name##_rest = 0;
#define ROW_PARTS(name) ((name##_T1 + name##_T2) + (name##_T3 + name##_T4))
#define ROW_SUM(name) \
  OB_GROUP_SUM(row_sum(ROW_PARTS(name) + name##_aside) + (name##_V + name##_rest))
#define ROW_MAX(name)                                                              \
  OB_GROUP_MAX(fmax(row_max(fmax(fmax(name##_T1, name##_T2), fmax(name##_T3, name##_T4))), \
                    name##_V))

#if W >= 8
static inline V row_sum_8(const ob_value8 v) {
  const ob_value4 a = v.lo + v.hi;
  const ob_value2 b = a.lo + a.hi;
  return b.x + b.y;
}
static inline V row_max_8(const ob_value8 v) {
  const ob_value4 a = fmax(v.lo, v.hi);
  const ob_value2 b = fmax(a.lo, a.hi);
  return fmax(b.x, b.y);
}
#endif
#if W == 8
#define row_sum(v) row_sum_8(v)
#define row_max(v) row_max_8(v)
#elif W == 16
#define row_sum(v) row_sum_8((v).lo + (v).hi)
#define row_max(v) row_max_8(fmax((v).lo, (v).hi))
#else
#define row_sum(v) OB_SUM(v)
#define row_max(v) OB_MAX(v)
#endif

#if OB_LOCAL == 1
#define ROW_VECTOR(location, BODY, type)  \
  {                                       \
    const ob_index i = location;          \
    BODY(type, load_vector, store_vector) \
  }
#define FOR_ELEMENTS_OF_ROW(begin, end, BODY)                              \
  {                                                                        \
    ob_index at_row = begin;                                               \
    for (; at_row + 4 * W <= (end); at_row += 4 * W) {                     \
      ROW_VECTOR(at_row, BODY, T1)                                         \
      ROW_VECTOR(at_row + W, BODY, T2)                                     \
      ROW_VECTOR(at_row + 2 * W, BODY, T3)                                 \
      ROW_VECTOR(at_row + 3 * W, BODY, T4)                                 \
    }                                                                      \
    for (; at_row + W <= (end); at_row += W) ROW_VECTOR(at_row, BODY, T1)  \
    for (ob_index i = at_row; i < (end); ++i) BODY(V, load, store)         \
  }
#define FOR_ROW(BODY) FOR_ELEMENTS_OF_ROW(0, n, BODY)
// Elements in a partial sum, about.
#define ROW_CHUNK ((ob_index)4096)
#define SET_ASIDE(name)                                  \
  name##_aside += ROW_PARTS(name);                       \
  name##_rest += name##_V;                               \
  name##_T1 = name##_T2 = name##_T3 = name##_T4 = C(0);  \
  name##_V = 0;
#define SUM_ROW(name, BODY)                                                  \
  if (n > ROW_CHUNK) {                                                       \
    for (ob_index begin = 0; begin < n; begin += ROW_CHUNK) {                \
      FOR_ELEMENTS_OF_ROW(begin, min(begin + ROW_CHUNK, (ob_index)n), BODY)  \
      SET_ASIDE(name)                                                        \
    }                                                                        \
  } else {                                                                   \
    FOR_ROW(BODY)                                                            \
  }
#else
#define FOR_ROW(BODY)                                            \
  for (ob_index i = OB_LANE * W; i + W <= n; i += OB_LOCAL * W)  \
    BODY(T1, load_vector, store_vector)                          \
  for (ob_index i = n / W * W + OB_LANE; i < n; i += OB_LOCAL) BODY(V, load, store)
#define SUM_ROW(name, BODY) FOR_ROW(BODY)
#endif

// Loops of a work-group over the elements of `blocks` runs of n elements: FOR_RUNS(first, BODY),
// where `first` is the start of run `block`, and BODY is as above. If groups have many
// work-items, short runs are distributed over them. FOR_PART(begin, end, first, BODY) covers
// [begin, end); both are multiples of W if n is.

#if OB_LOCAL == 1
#define FOR_RUNS(start, BODY)                             \
  for (ob_index block = 0; block < blocks; ++block) {     \
    const ob_index first = start;                         \
    FOR_ROW(BODY)                                         \
  }
#define SUM_RUNS(name, start, BODY)                                         \
  for (ob_index begin = 0; begin < blocks; begin += 1 + ROW_CHUNK / n) {    \
    const ob_index end = min(begin + 1 + ROW_CHUNK / n, (ob_index)blocks);  \
    for (ob_index block = begin; block < end; ++block) {                    \
      const ob_index first = start;                                         \
      SUM_ROW(name, BODY)                                                   \
    }                                                                       \
    SET_ASIDE(name)                                                         \
  }
#else
#define FOR_RUNS(start, BODY) FOR_PART(0, blocks * n, start, BODY)
#define SUM_RUNS(name, start, BODY) FOR_RUNS(start, BODY)
#define FOR_PART(begin, end, start, BODY)                               \
  if (n % W == 0) {                                                     \
    FOR_LOCATIONS(begin, end, W, start, BODY(T1, load_vector, store_vector)) \
  } else {                                                              \
    FOR_LOCATIONS(begin, end, 1, start, BODY(V, load, store))           \
  }
// Divides only at the end of a run.
#define FOR_LOCATIONS(begin, end, width, start, body)                                          \
  {                                                                                            \
    ob_index k = (begin) + OB_LANE * (width), block = k / n, i = k - block * n; \
    for (; k < (end); k += OB_LOCAL * (width), i += OB_LOCAL * (width)) {        \
      if (i >= n) {                                                                            \
        const ob_index further = i / n;                                                        \
        block += further;                                                                      \
        i -= further * n;                                                                      \
      }                                                                                        \
      const ob_index first = start;                                                            \
      body                                                                                     \
    }                                                                                          \
  }

// For GPUs, which run more work-groups than most tensors have channels: `parts` per channel.
#define PART_LENGTH (((blocks * n + parts - 1) / parts + 15) / 16 * 16)
#define BEGIN_OF_PART min(part * PART_LENGTH, blocks * n)
#define END_OF_PART min((part + 1) * PART_LENGTH, blocks * n)
#endif

// Bodies for normalizations: sums of the input, of squared deviations from `average`, and of
// gradients alone and times these deviations.
#define ADD_INPUT(type, load, store) total_##type += input_##load(first + i);
#define ADD_SQUARES(type, load, store)                   \
  {                                                      \
    const type d = input_##load(first + i) - average;    \
    squares_##type += d * d;                             \
  }
#define ADD_GRADIENTS(type, load, store)                         \
  {                                                              \
    const type dy = grad_out_##load(first + i);                  \
    total_##type += dy;                                          \
    product_##type += dy * (input_##load(first + i) - average);  \
  }
