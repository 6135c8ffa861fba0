// Means of windows. What a window is divided by: `divisor`, or its size with or without padding.

#define OB_WINDOW(name, o, step, padding, kernel, size)                            \
  ob_index name##_begin = (o) * (step) - (padding);                                \
  ob_index name##_end = min(name##_begin + (kernel), (size) + (padding));          \
  const ob_index name##_padded = name##_end - name##_begin;                        \
  name##_begin = max(name##_begin, (ob_index)0);                                   \
  name##_end = min(name##_end, (ob_index)(size));                                  \
  const ob_index name##_inside = name##_end - name##_begin;

#define OB_DIVISOR                                                \
  (divisor != 0 ? divisor                                         \
   : padded     ? z_padded * y_padded * x_padded                  \
                : z_inside * y_inside * x_inside)

__kernel void average_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  OB_SPLIT(i, out_depth, out_height, out_width)
  OB_WINDOW(z, z, step_d, padding_d, kernel_d, depth)
  OB_WINDOW(y, y, step_h, padding_h, kernel_h, height)
  OB_WINDOW(x, x, step_w, padding_w, kernel_w, width)
  const ob_index from = plane * depth * height * width;
  V sum = 0;
  for (ob_index a = z_begin; a < z_end; ++a) {
    for (ob_index b = y_begin; b < y_end; ++b) {
      for (ob_index c = x_begin; c < x_end; ++c) {
        sum += self_load(from + (a * height + b) * width + c);
      }
    }
  }
  const bool empty = z_inside <= 0 || y_inside <= 0 || x_inside <= 0;
  out_store(i, empty ? (V)0 : sum / (V)OB_DIVISOR);
}

__kernel void average_pool_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  OB_SPLIT(i, depth, height, width)
  const ob_index z_first = max((z + padding_d - kernel_d + step_d) / step_d, (ob_index)0);
  const ob_index y_first = max((y + padding_h - kernel_h + step_h) / step_h, (ob_index)0);
  const ob_index x_first = max((x + padding_w - kernel_w + step_w) / step_w, (ob_index)0);
  const ob_index z_last = min((z + padding_d) / step_d + 1, out_depth);
  const ob_index y_last = min((y + padding_h) / step_h + 1, out_height);
  const ob_index x_last = min((x + padding_w) / step_w + 1, out_width);
  V sum = 0;
  for (ob_index a = z_first; a < z_last; ++a) {
    OB_WINDOW(z, a, step_d, padding_d, kernel_d, depth)
    for (ob_index b = y_first; b < y_last; ++b) {
      OB_WINDOW(y, b, step_h, padding_h, kernel_h, height)
      const ob_index row = ((plane * out_depth + a) * out_height + b) * out_width;
      for (ob_index c = x_first; c < x_last; ++c) {
        OB_WINDOW(x, c, step_w, padding_w, kernel_w, width)
        sum += (V)self_load(row + c) / (V)OB_DIVISOR;
      }
    }
  }
  out_store(i, sum);
}
