// For each value the first place in a sorted line where it could be inserted, or, with RIGHT, the
// last one. NaN goes to the end.

__kernel void searchsorted(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const V value = self_load(i);
  const ob_index line = lines == 1 ? 0 : i / values_per_line;
  ob_index low = line * n;
  ob_index high = low + n;
  const ob_index start = low;
  while (low < high) {
    const ob_index middle = low + (high - low) / 2;
    const ob_index at = sorter_place(middle, start);
    const V there = sorted_sequence_load(at);
#if RIGHT
    if (!(there > value)) {
#else
    if (!(there >= value)) {
#endif
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  out[i] = low - start;
}
