// Scans over a dimension of n elements that lie `inner` apart: a work item takes one.

__kernel void scan_columns(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index first = item / inner * inner * n + item % inner;
  State s = STATE_OF(ELEMENT(first), 0);
  STORE(first, s)
  for (ob_index i = 1; i < n; ++i) {
    const ob_index at = first + i * inner;
    s = join(s, STATE_OF(ELEMENT(at), i));
    STORE(at, s)
  }
}
