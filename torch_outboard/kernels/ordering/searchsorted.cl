// For each value the first index in a sorted line at which it can be inserted, or, with RIGHT, the
// last one. NaN goes to the end. `sorter`: the sorted order of a line.

#ifdef HAS_sorted_sequence  // what bucketize calls boundaries
#define boundaries_load sorted_sequence_load
#endif

__kernel void check_sorter(OB_PARAMETERS) {
#if HAS_sorter
  OB_BEGIN
  OB_ITEM(i)
  if (ob_checked_index(sorter_load(i), n) < 0) { OB_REPORT }
#endif
}

__kernel void searchsorted(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const V value = self_load(i);
  const ob_index start = i / per_line * n;
  ob_index low = 0;
  ob_index high = n;
  while (low < high) {
    const ob_index middle = low + (high - low) / 2;
#if HAS_sorter
    const ob_index location = max(ob_checked_index(sorter_load(start + middle), n), (ob_index)0);
#else
    const ob_index location = middle;
#endif
    const V there = boundaries_load(start + location);
#if RIGHT
    const int before = !(there > value);
#else
    const int before = !(there >= value);
#endif
    if (before) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  out[i] = (out_t)low;
}
