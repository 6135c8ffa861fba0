// Elements of dimension d from `first` on.

__kernel void narrow(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  ob_index rest = i, from = first * self_layout.stride[d];
  for (ob_index k = self_layout.dims - 1; k >= 0; --k) {
    const ob_index size = k == d ? length : self_layout.size[k];
    const ob_index next = rest / size;
    from += (rest - next * size) * self_layout.stride[k];
    rest = next;
  }
  out_store(i, self_load(from));
}
