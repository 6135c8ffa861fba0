// The gradient of unfold: each element sums its windows in a fixed order.

__kernel void unfold_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  ob_index rest = i;
  ob_index base = 0;
  ob_index c = 0;
  for (ob_index d = out_layout.dims - 1; d >= 0; --d) {
    const ob_index next = rest / out_layout.size[d];
    const ob_index at = rest - next * out_layout.size[d];
    if (d == along) {
      c = at;
    } else {
      base += at * grad_in_layout.stride[d];
    }
    rest = next;
  }
  V total = (V)(0);
  const ob_index windows = grad_in_layout.size[along];
  const ob_index window_stride = grad_in_layout.stride[along];
  const ob_index inner_stride = grad_in_layout.stride[grad_in_layout.dims - 1];
  const ob_index first = c < window ? 0 : (c - window) / hop + 1;
  const ob_index last = min(c / hop, windows - 1);
  for (ob_index w = first; w <= last; ++w) {
    total += grad_in_load(base + w * window_stride + (c - w * hop) * inner_stride);
  }
  out_store(ob_offset_of(out_layout, i), total);
}
