// Scans over a dimension of n elements with stride `inner`: one work-item per line.

__kernel void scan_columns(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  LINE_STEPS
  const ob_index first = item / inner * inner * n + item % inner;
  const Line line = LINE_OF(item, first);
  State s = STATE_OF(ELEMENT(first), 0);
  STORE(line, 0, s)
  for (ob_index i = 1; i < n; ++i) {
    s = join(s, STATE_OF(ELEMENT(first + i * inner), i));
    STORE(line, i, s)
  }
}
