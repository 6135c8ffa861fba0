// The gradient of padding by reflection (MODE 1) or repetition of the ends (MODE 2): each element
// of the input gathers from where it went, in one order. At most three dimensions are padded.

// The places where element c of the input went along a dimension: *count ranges of them.
static inline int ob_images(const ob_index c, const ob_index n, const ob_index before,
                            const ob_index padded, ob_index *first, ob_index *last) {
  int count = 0;
#if MODE == 1
  const ob_index images[3] = {c + before, before - c, before + 2 * n - 2 - c};
  for (int k = 0; k < 3; ++k) {
    int known = images[k] < 0 || images[k] >= padded;
    for (int other = 0; other < k; ++other) known |= images[other] == images[k];
    if (known) continue;
    first[count] = images[k];
    last[count] = images[k];
    ++count;
  }
#else
  first[0] = c == 0 ? 0 : max(c + before, (ob_index)0);
  last[0] = c == n - 1 ? padded - 1 : min(c + before, padded - 1);
  count = first[0] <= last[0];
#endif
  return count;
}

__kernel void reflect_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  ob_index first[3][3], last[3][3], stride[3];
  int count[3];
  ob_index rest = i;
  ob_index in_grad = 0;
  for (int k = 0; k < 3; ++k) {
    count[k] = 1;
    first[k][0] = 0;
    last[k][0] = 0;
    stride[k] = 0;
  }
  for (ob_index d = out_layout.dims - 1; d >= 0; --d) {
    const ob_index n = out_layout.size[d];
    const ob_index next = rest / n;
    const ob_index c = rest - next * n;
    const ob_index k = out_layout.dims - 1 - d;
    if (k < padded_dims) {
      count[k] = ob_images(c, n, amounts.at[2 * k], grad_output_layout.size[d], first[k], last[k]);
      stride[k] = grad_output_layout.stride[d];
    } else {
      in_grad += c * grad_output_layout.stride[d];
    }
    rest = next;
  }
  V total = (V)(0);
  for (int c = 0; c < count[2]; ++c)
    for (ob_index z = first[2][c]; z <= last[2][c]; ++z)
      for (int b = 0; b < count[1]; ++b)
        for (ob_index y = first[1][b]; y <= last[1][b]; ++y)
          for (int a = 0; a < count[0]; ++a)
            for (ob_index x = first[0][a]; x <= last[0][a]; ++x)
              total += grad_output_load(in_grad + z * stride[2] + y * stride[1] + x * stride[0]);
  out_store(ob_place(out_layout, i), total);
}
