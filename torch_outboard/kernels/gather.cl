// Elements of `self` at the places that `index` names along one dimension.

__kernel void gather(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  ob_index at = 0;
  ob_index rest = i;
  for (ob_index d = index_layout.dims - 1; d >= 0; --d) {
    const ob_index next = rest / index_layout.size[d];
    if (d != dim) at += (rest - next * index_layout.size[d]) * self_layout.stride[d];
    rest = next;
  }
  const ob_index place = index_load(ob_place(index_layout, i));
  if (place >= 0 && place < n) {
    out_store(i, self_load(at + place * stride));
  } else {
    OB_REPORT
  }
}
