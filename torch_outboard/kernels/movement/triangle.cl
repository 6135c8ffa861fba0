// The triangle of matrices on and above (UPPER), or on and below a diagonal; zero elsewhere. A
// work-group computes rows.

__kernel void triangle(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index last = self_layout.dims - 1;
  const ob_index stride = self_layout.stride[last];
  const ob_index out_stride = out_layout.stride[last];
  OB_FOR_GROUPS(row) {
    const ob_index from = ob_line(self_layout, last, row);
    const ob_index to = ob_line(out_layout, last, row);
    // The first column on the other side of the diagonal.
    const ob_index edge = row % rows + diagonal + 1 - UPPER;
    for (ob_index c = OB_LANE; c < columns; c += OB_LOCAL) {
      const int kept = UPPER ? c >= edge : c < edge;
      out_store(to + c * out_stride, kept ? self_load(from + c * stride) : (V)(0));
    }
  }
}
