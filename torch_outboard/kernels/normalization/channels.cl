// Loops of a work-group over the elements of `blocks` runs of n elements: FOR_RUNS(first, BODY),
// where `first` says where run `block` starts, and BODY is as in rows.cl. Where groups have many
// work items, short runs are spread over them.

#if OB_LOCAL == 1
#define FOR_RUNS(start, BODY)                             \
  for (ob_index block = 0; block < blocks; ++block) {     \
    const ob_index first = start;                         \
    FOR_ROW(BODY)                                         \
  }
#else
#define FOR_RUNS(start, BODY)                                            \
  for (ob_index place = OB_LANE; place < blocks * n; place += OB_LOCAL) { \
    const ob_index block = place / n;                                    \
    const ob_index first = start;                                        \
    const ob_index i = place - block * n;                                \
    BODY(V, load, store)                                                 \
  }
#endif
