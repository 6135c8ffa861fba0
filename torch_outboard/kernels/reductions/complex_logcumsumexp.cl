// Logarithms of running sums of exponentials of n complex elements with stride `inner`: a work-item
// scans a row sequentially. Another order could give angles that differ by whole turns.

__kernel void scan_columns(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index first = item / inner * inner * n + item % inner;
  V s = self_load(first);
  out_store(first, s);
  for (ob_index i = 1; i < n; ++i) {
    s = ob_logaddexp(s, self_load(first + i * inner));
    out_store((first + i * inner), s);
  }
}
