// Rows of `weight` at `indices`; 0 for an index out of range.
__kernel void embedding(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(row) {
    const ob_index location = ob_checked_index(indices_load(row), row_count);
    const bool known = location >= 0;
    if (!known) { OB_REPORT }
#define WEIGHT(i) (known ? weight_load(location * n + (i)) : 0)
#define OUT(i, v) out_store((row * n + (i)), v)
    OB_MOVE_ROW(V, n, WEIGHT, OUT)
  }
}
