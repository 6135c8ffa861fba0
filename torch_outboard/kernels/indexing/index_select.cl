// The slices of `self` at the indices in `index` along one dimension. `out` has the other
// dimensions of `self`; `after`: contiguous elements. WRAP: negative indices count from the end.

#if WRAP
#define OB_LOCATION(given) ob_wrapped_index(given, n)
#else
#define OB_LOCATION(given) ob_checked_index(given, n)
#endif

// One work-item per element.
__kernel void select_elements(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index before = i / after;
  const ob_index outer = before / count;
  const ob_index location = OB_LOCATION(index_load(before - outer * count));
  if (location < 0) {
    OB_REPORT
    return;
  }
  out_store(i, self_load((outer * n + location) * after + i - before * after));
}

// Work-groups process slices.
__kernel void select_slices(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(slice) {
    const ob_index outer = slice / count;
    const ob_index location = OB_LOCATION(index_load(slice - outer * count));
    if (location < 0) {
      OB_REPORT
      continue;
    }
    const ob_index from = (outer * n + location) * after;
    const ob_index to = slice * after;
#define SELF(i) self_load(from + (i))
#define OUT(i, v) out_store((to + (i)), v)
    OB_MOVE_ROW(V, after, SELF, OUT)
  }
}
