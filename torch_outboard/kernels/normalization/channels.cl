// Loops of a work-group over the elements of `blocks` runs of n elements: FOR_RUNS(first, BODY),
// where `first` says where run `block` starts, and BODY is as in rows.cl. Where groups have many
// work items, short runs are spread over them, by vectors if runs are whole ones.

#if OB_LOCAL == 1
#define FOR_RUNS(start, BODY)                             \
  for (ob_index block = 0; block < blocks; ++block) {     \
    const ob_index first = start;                         \
    FOR_ROW(BODY)                                         \
  }
#else
#define FOR_RUNS(start, BODY)                                            \
  if (n % W == 0) {                                                      \
    const ob_index vectors = n / W;                                      \
    for (ob_index place = OB_LANE; place < blocks * vectors; place += OB_LOCAL) { \
      const ob_index block = place / vectors;                            \
      const ob_index first = start;                                      \
      const ob_index i = (place - block * vectors) * W;                  \
      BODY(T1, load_vector, store_vector)                                \
    }                                                                    \
  } else {                                                               \
    for (ob_index place = OB_LANE; place < blocks * n; place += OB_LOCAL) { \
      const ob_index block = place / n;                                  \
      const ob_index first = start;                                      \
      const ob_index i = place - block * n;                              \
      BODY(V, load, store)                                               \
    }                                                                    \
  }
// Divides only where a run ends.
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

// A GPU has more groups than most tensors have channels: each takes one of the `parts` of a channel.
#define PART_LENGTH (((blocks * n + parts - 1) / parts + 15) / 16 * 16)
#define BEGIN_OF_PART min(part * PART_LENGTH, blocks * n)
#define END_OF_PART min((part + 1) * PART_LENGTH, blocks * n)
#endif
