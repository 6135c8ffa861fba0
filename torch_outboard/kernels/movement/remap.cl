// Elements moved by rules, and the gradient of padding.

#if HAS_grad_output

// The gradient of padding by reflection (MODE 1) or replication (MODE 2): each input element sums
// its copies in a fixed order. At most three dimensions are padded.

// The indices of copies of input element c along a dimension: *count ranges.
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

// A work-group computes rows along the last dimension.
__kernel void reflect_backward(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index last = out_layout.dims - 1;
  const ob_index columns = out_layout.size[last];
  const ob_index padded = grad_output_layout.size[last];
  const ob_index x_stride = grad_output_layout.stride[last];
  const ob_index out_stride = out_layout.stride[last];
  const ob_index before = amounts.at[0];
#if MODE == 1
  // Elements between these columns have one copy.
  const ob_index inner = max(before + 1, (ob_index)0);
  const ob_index outer = min(before + 2 * columns - 1 - padded, columns);
#else
  const ob_index inner = 1;
  const ob_index outer = columns - 1;
#endif
  OB_FOR_GROUPS(row) {
    // Ranges of indices in the second and third dimension from the last one.
    ob_index low[2][3], high[2][3], stride[2];
    int count[2];
    for (int k = 0; k < 2; ++k) {
      count[k] = 1;
      low[k][0] = 0;
      high[k][0] = 0;
      stride[k] = 0;
    }
    ob_index rest = row;
    ob_index from = 0;
    ob_index to = 0;
    for (ob_index d = last - 1; d >= 0; --d) {
      const ob_index n = out_layout.size[d];
      const ob_index next = rest / n;
      const ob_index c = rest - next * n;
      const ob_index k = last - 1 - d;
      to += c * out_layout.stride[d];
      if (k + 1 < padded_dims) {
        count[k] = ob_images(c, n, amounts.at[2 * k + 2], grad_output_layout.size[d], low[k],
                             high[k]);
        stride[k] = grad_output_layout.stride[d];
      } else {
        from += c * grad_output_layout.stride[d];
      }
      rest = next;
    }
    int some = 0;
    for (int b = 0; b < count[1]; ++b)
      for (ob_index z = low[1][b]; z <= high[1][b]; ++z)
        for (int a = 0; a < count[0]; ++a)
          for (ob_index y = low[0][a]; y <= high[0][a]; ++y) {
            const ob_index at = from + z * stride[1] + y * stride[0];
            for (ob_index c = OB_LANE; c < columns; c += OB_LOCAL) {
              V total = some ? out_load(to + c * out_stride) : (V)(0);
              if (c >= inner && c < outer && c + before >= 0 && c + before < padded) {
                total += grad_output_load(at + (c + before) * x_stride);
              } else {
                ob_index first[3], final[3];
                const int images = ob_images(c, columns, before, padded, first, final);
                for (int i = 0; i < images; ++i)
                  for (ob_index x = first[i]; x <= final[i]; ++x)
                    total += grad_output_load(at + x * x_stride);
              }
              out_store(to + c * out_stride, total);
            }
            some = 1;
          }
    if (!some) {
      for (ob_index c = OB_LANE; c < columns; c += OB_LOCAL) out_store(to + c * out_stride, (V)(0));
    }
  }
}

#else

// Moved elements: element c of `out` along a dimension is element f(c) of `self`, or `value` if
// that is outside. MODE: 0 shifted (constant padding), 1 reflected at the ends, 2 clamped to the
// ends, 3 periodic, 4 reversed in the dimensions with a flag.

static inline ob_index ob_source(const ob_index c, const ob_index n, const ob_index shift) {
#if MODE == 1
  const ob_index at = c - shift;
  return at < 0 ? -at : (at >= n ? 2 * n - 2 - at : at);
#elif MODE == 2
  return clamp(c - shift, (ob_index)0, n - 1);
#elif MODE == 3
  return c < shift ? c - shift + n : c - shift;  // 0 <= shift < n
#elif MODE == 4
  return shift ? n - 1 - c : c;
#else
  return c - shift;
#endif
}

static inline ob_index ob_shift(const ob_list amounts, const ob_list along, const ob_index count,
                                const ob_index d, const ob_index dims, const ob_index n) {
#if MODE >= 3
  // Amounts belong to the dimensions in a second list.
  ob_index total = 0;
  for (ob_index k = 0; k < count; ++k) {
    if (along.at[k] == d || along.at[k] + dims == d) total += amounts.at[k];
  }
#if MODE == 3
  total %= n;
  if (total < 0) total += n;
#endif
  return total;
#else
  // Two amounts per dimension, from the last one on.
  return amounts.at[2 * (dims - 1 - d)];
#endif
}

// A work-group computes rows along the last dimension.
__kernel void remap(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index last = self_layout.dims - 1;
  const ob_index row_size = last < 0 ? 1 : out_layout.size[last];
  const ob_index n = last < 0 ? 1 : self_layout.size[last];
  const ob_index stride = last < 0 ? 1 : self_layout.stride[last];
  const ob_index out_stride = last < 0 ? 1 : out_layout.stride[last];
  const ob_index shift =
      last < 0 || n == 0 ? 0 : ob_shift(amounts, along, count, last, self_layout.dims, n);
  OB_FOR_GROUPS(row) {
    ob_index rest = row;
    ob_index from = 0;
    ob_index to = 0;
    int inside = 1;
    for (ob_index d = last - 1; d >= 0; --d) {
      const ob_index next = rest / out_layout.size[d];
      const ob_index c = rest - next * out_layout.size[d];
      const ob_index size = self_layout.size[d];
      const ob_index at =
          ob_source(c, size, ob_shift(amounts, along, count, d, self_layout.dims, size));
      inside &= at >= 0 && at < size;
      from += at * self_layout.stride[d];
      to += c * out_layout.stride[d];
      rest = next;
    }
    for (ob_index c = OB_LANE; c < row_size; c += OB_LOCAL) {
      const ob_index at = ob_source(c, n, shift);
      const int here = inside && at >= 0 && at < n;
#if MODE == 0
      out_store(to + c * out_stride, here ? self_load(from + at * stride) : value);
#else
      if (here) out_store(to + c * out_stride, self_load(from + at * stride));
#endif
    }
  }
}

#endif
