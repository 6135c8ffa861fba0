// Elements of `values`, or its only one, go to the slices of `out` that `index` names along one
// dimension; negative places count from the end. `after` elements of a slice lie together.
// ACCUMULATE: they are added to what is there.
//
// A work item takes adjacent elements of `block` slices in order: of those that go to one place the
// last one wins, and sums are the same at every run. Between blocks there is no order.

#define OB_ADJACENT 32

__kernel void index_put(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index parts = (after + OB_ADJACENT - 1) / OB_ADJACENT;
  const ob_index blocks = (count + block - 1) / block;
  ob_index outer = item / parts;
  const ob_index first = (item - outer * parts) * OB_ADJACENT;
  const ob_index adjacent = min((ob_index)OB_ADJACENT, after - first);
  const ob_index begin = (outer % blocks) * block;
  const ob_index end = min(begin + block, count);
  outer /= blocks;
  for (ob_index j = begin; j < end; ++j) {
    const ob_index given = index_load(j);
    const ob_index place = given < 0 ? given + n : given;
    if (place < 0 || place >= n) {
      OB_REPORT
      continue;
    }
    const ob_index to = (outer * n + place) * after + first;
    const ob_index from = (outer * count + j) * after + first;
    for (ob_index k = 0; k < adjacent; ++k) {
      const ob_index value = single_value ? 0 : from + k;
#if ACCUMULATE
      out_store(to + k, out_load(to + k) + values_load(value));
#else
      out_store(to + k, values_load(value));
#endif
    }
  }
}
