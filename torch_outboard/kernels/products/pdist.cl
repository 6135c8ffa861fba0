// Distances between the rows i < j of one matrix, in the order of (i, j).

// The number of pairs before (i, i + 1).
static inline ob_index pairs_before(const ob_index i, const ob_index rows) {
  return i * (2 * rows - i - 1) / 2;
}

#if BACKWARD
__kernel void pdist(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index column = item % columns, row = item / columns;
  const V x = self_load(item);
  V total = 0;
  for (ob_index j = 0; j < rows; ++j) {
    if (j == row) continue;
    const ob_index low = min(j, row), high = max(j, row);
    const ob_index k = pairs_before(low, rows) + high - low - 1;
    total += slope(x - self_load(j * columns + column), grad_load(k), pdist_load(k), p);
  }
  out_store(item, total);
}
#else
__kernel void pdist(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(k)
  // The largest i with at most k pairs before it: estimated in float, then corrected.
  const float middle = rows - 0.5f;
  ob_index i = (ob_index)(middle - sqrt(fmax(middle * middle - 2.0f * k, 0.0f)));
  i = clamp(i, (ob_index)0, rows - 2);
  while (i > 0 && pairs_before(i, rows) > k) --i;
  while (i < rows - 2 && pairs_before(i + 1, rows) <= k) ++i;
  const ob_index j = k - pairs_before(i, rows) + i + 1;
  V total = 0;
  for (ob_index c = 0; c < columns; ++c) {
    total = distance(total, self_load(i * columns + c) - self_load(j * columns + c), p);
  }
  out_store(k, root(total, p));
}
#endif
