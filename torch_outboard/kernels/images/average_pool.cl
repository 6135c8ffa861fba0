// Average pooling. Divisor: `divisor`, or the size of the window with or without padding.

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

#if !BACKWARD

__kernel void average_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    const ob_index from = plane * depth * height * width;
    OB_FOR_PLACES(z, y, x, out_depth, out_height, out_width) {
      OB_WINDOW(z, z, step_d, padding_d, kernel_d, depth)
      OB_WINDOW(y, y, step_h, padding_h, kernel_h, height)
      OB_WINDOW(x, x, step_w, padding_w, kernel_w, width)
      V sum = 0;
      for (ob_index a = z_begin; a < z_end; ++a) {
        for (ob_index b = y_begin; b < y_end; ++b) {
          for (ob_index c = x_begin; c < x_end; ++c) {
            sum += self_load(from + (a * height + b) * width + c);
          }
        }
      }
      const bool empty = z_inside <= 0 || y_inside <= 0 || x_inside <= 0;
      out_store(((plane * out_depth + z) * out_height + y) * out_width + x,
                empty ? (V)0 : sum / (V)OB_DIVISOR);
    }
  }
}

#elif OB_LOCAL == 1

__kernel void average_pool(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index size = depth * height * width;
  OB_FOR_GROUPS(plane) {
    for (ob_index i = 0; i < size; ++i) out_store(plane * size + i, (V)0);
    OB_FOR_PLACES(z, y, x, out_depth, out_height, out_width) {
      OB_WINDOW(z, z, step_d, padding_d, kernel_d, depth)
      OB_WINDOW(y, y, step_h, padding_h, kernel_h, height)
      OB_WINDOW(x, x, step_w, padding_w, kernel_w, width)
      const ob_index at = ((plane * out_depth + z) * out_height + y) * out_width + x;
      if (z_inside <= 0 || y_inside <= 0 || x_inside <= 0) continue;
      const V share = (V)grad_output_load(at) / (V)OB_DIVISOR;
      for (ob_index a = z_begin; a < z_end; ++a) {
        for (ob_index b = y_begin; b < y_end; ++b) {
          const ob_index row = plane * size + (a * height + b) * width;
          for (ob_index c = x_begin; c < x_end; ++c) {
            out_store(row + c, (V)out_load(row + c) + share);
          }
        }
      }
    }
  }
}

#else

__kernel void average_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    OB_FOR_PLACES(i, j, k, depth, height, width) {
      const ob_index z_first = max((i + padding_d - kernel_d + step_d) / step_d, (ob_index)0);
      const ob_index y_first = max((j + padding_h - kernel_h + step_h) / step_h, (ob_index)0);
      const ob_index x_first = max((k + padding_w - kernel_w + step_w) / step_w, (ob_index)0);
      const ob_index z_last = min((i + padding_d) / step_d + 1, out_depth);
      const ob_index y_last = min((j + padding_h) / step_h + 1, out_height);
      const ob_index x_last = min((k + padding_w) / step_w + 1, out_width);
      V sum = 0;
      for (ob_index a = z_first; a < z_last; ++a) {
        OB_WINDOW(z, a, step_d, padding_d, kernel_d, depth)
        for (ob_index b = y_first; b < y_last; ++b) {
          OB_WINDOW(y, b, step_h, padding_h, kernel_h, height)
          const ob_index row = ((plane * out_depth + a) * out_height + b) * out_width;
          for (ob_index c = x_first; c < x_last; ++c) {
            OB_WINDOW(x, c, step_w, padding_w, kernel_w, width)
            sum += (V)grad_output_load(row + c) / (V)OB_DIVISOR;
          }
        }
      }
      out_store(((plane * depth + i) * height + j) * width + k, sum);
    }
  }
}

#endif
