// The slices of `self` that `index` names along one dimension. `out` has the dimensions of `self` but
// for this one; `after` elements lie together. WRAP: negative places count from the end.

#if WRAP
#define OB_PLACE(given) ((given) < 0 ? (given) + n : (given))
#else
#define OB_PLACE(given) (given)
#endif

// One work item per element.
__kernel void select_elements(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index before = i / after;
  const ob_index outer = before / count;
  const ob_index given = index_load(before - outer * count);
  const ob_index place = OB_PLACE(given);
  if (place < 0 || place >= n) {
    OB_REPORT
    return;
  }
  out_store(i, self_load((outer * n + place) * after + i - before * after));
}

// Groups take slices.
__kernel void select_slices(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(slice) {
    const ob_index outer = slice / count;
    const ob_index given = index_load(slice - outer * count);
    const ob_index place = OB_PLACE(given);
    if (place < 0 || place >= n) {
      OB_REPORT
      continue;
    }
    const ob_index from = (outer * n + place) * after;
    const ob_index to = slice * after;
    for (ob_index i = OB_LANE; i < after; i += OB_LOCAL) out_store(to + i, self_load(from + i));
  }
}
