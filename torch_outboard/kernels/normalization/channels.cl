// Loops of a work-group over the elements of `blocks` runs of n elements: FOR_RUNS(first, BODY),
// where `first` is the start of run `block`, and BODY is as in rows.cl. If groups have many
// work-items, short runs are distributed over them. FOR_PART(begin, end, first, BODY) covers
// [begin, end); both are multiples of W if n is.

#if OB_LOCAL == 1
#define FOR_RUNS(start, BODY)                             \
  for (ob_index block = 0; block < blocks; ++block) {     \
    const ob_index first = start;                         \
    FOR_ROW(BODY)                                         \
  }
#else
#define FOR_RUNS(start, BODY) FOR_PART(0, blocks * n, start, BODY)
#define FOR_PART(begin, end, start, BODY)                               \
  if (n % W == 0) {                                                     \
    FOR_PLACES(begin, end, W, start, BODY(T1, load_vector, store_vector)) \
  } else {                                                              \
    FOR_PLACES(begin, end, 1, start, BODY(V, load, store))              \
  }
// Divides only at the end of a run.
#define FOR_PLACES(begin, end, width, start, body)                                             \
  {                                                                                            \
    ob_index place = (begin) + OB_LANE * (width), block = place / n, i = place - block * n;    \
    for (; place < (end); place += OB_LOCAL * (width), i += OB_LOCAL * (width)) {              \
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
