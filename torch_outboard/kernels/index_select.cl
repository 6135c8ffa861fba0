// The slices of `self` that `index` names along one dimension.

__kernel void index_select(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  // `out` has the dimensions of `self` but for this one.
  const ob_index inner = i % after;
  const ob_index j = i / after % count;
  const ob_index place = index_load(j);
  if (place < 0 || place >= n) {
    OB_REPORT
    return;
  }
  const ob_index outer = i / after / count;
  out_store(i, self_load((outer * n + place) * after + inner));
}
