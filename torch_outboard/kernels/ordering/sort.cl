// Stable merge sort of lines. A work item sorts OB_RUN elements, then runs are merged in pairs:
// for every OB_RUN elements of a merged run a work item finds where they come from (merge path).
// To be put after order.cl.

#define OB_RUN 16

__kernel void sort_runs(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index line = item / runs;
  const ob_index first = (item - line * runs) * OB_RUN;
  const ob_index start = ob_line(self_layout, dim, line);
  const int count = (int)min((ob_index)OB_RUN, n - first);
  V keys[OB_RUN];
  int places[OB_RUN];
  for (int i = 0; i < count; ++i) {
    const V key = self_load(start + (first + i) * self_stride);
    int at = i;
    for (; at > 0 && ob_before(key, keys[at - 1]); --at) {
      keys[at] = keys[at - 1];
      places[at] = places[at - 1];
    }
    keys[at] = key;
    places[at] = (int)first + i;
  }
  for (int i = 0; i < count; ++i) {
    one_store(line * n + first + i, keys[i]);
    one_places[line * n + first + i] = places[i];
  }
}

#define OB_MERGE(from, to)                                                            \
  ob_index low = max((ob_index)0, skipped - (end - middle));                          \
  ob_index high = min(skipped, middle - begin);                                       \
  while (low < high) {                                                                \
    const ob_index at = (low + high) / 2;                                             \
    const V left = from##_load(begin + at);                                           \
    const V right = from##_load(middle + skipped - 1 - at);                           \
    if (ob_before(right, left)) {                                                     \
      high = at;                                                                      \
    } else {                                                                          \
      low = at + 1;                                                                   \
    }                                                                                 \
  }                                                                                   \
  ob_index a = begin + low;                                                           \
  ob_index b = middle + skipped - low;                                                \
  for (ob_index i = base + first; i < last; ++i) {                                    \
    const int second =                                                                \
        a >= middle || (b < end && ob_before(from##_load(b), from##_load(a)));        \
    const ob_index source = second ? b++ : a++;                                       \
    to##_store(i, from##_load(source));                                               \
    to##_places[i] = from##_places[source];                                           \
  }

__kernel void merge_runs(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index line = item / runs;
  const ob_index first = (item - line * runs) * OB_RUN;
  const ob_index base = line * n;
  const ob_index width = (ob_index)OB_RUN << ob_step;
  const ob_index pair = first / width / 2 * width * 2;
  const ob_index begin = base + pair;
  const ob_index middle = base + min(pair + width, n);
  const ob_index end = base + (n - pair < width ? n : min(pair + width * 2, n));
  const ob_index skipped = first - pair;
  const ob_index last = base + min(first + OB_RUN, n);
  if (ob_step % 2 == 0) {
    OB_MERGE(one, two)
  } else {
    OB_MERGE(two, one)
  }
}
