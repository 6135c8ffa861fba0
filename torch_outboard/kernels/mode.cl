// The most frequent value of each sorted row, the smallest of several, and the last place where it
// was before sorting.

__kernel void mode(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(row)
  const ob_index start = row * n;
  ob_index longest = 0;
  ob_index best = start;
  ob_index count = 0;
  for (ob_index i = start; i < start + n; ++i) {
    ++count;
    if (i + 1 < start + n && self_load(i) == self_load(i + 1)) continue;
    if (count > longest) {
      longest = count;
      best = i;
    }
    count = 0;
  }
  place[row] = best - start;
}
