// The gradient of an element: the sum of the gradients of windows with its index.

#if OB_LOCAL == 1

__kernel void max_pool_backward(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index size = depth * height * width, taken = out_depth * out_height * out_width;
  OB_FOR_GROUPS(plane) {
    for (ob_index i = 0; i < size; ++i) out_store(plane * size + i, (V)0);
    for (ob_index i = plane * taken; i < (plane + 1) * taken; ++i) {
      const ob_index place = ob_checked_index(indices[i], size);
      if (place < 0) continue;
      const ob_index to = plane * size + place;
      out_store(to, (V)out_load(to) + (V)grad_output_load(i));
    }
  }
}

#else

__kernel void max_pool_backward(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index reach_d = (kernel_d - 1) * dilation_d, reach_h = (kernel_h - 1) * dilation_h,
                 reach_w = (kernel_w - 1) * dilation_w;
  OB_FOR_GROUPS(plane) {
    OB_FOR_PLACES(z, y, x, depth, height, width) {
      const ob_index place = (z * height + y) * width + x;
      // Windows that reach this element, with or without a tap at it.
      const ob_index z_begin = max((z + padding_d - reach_d + step_d - 1) / step_d, (ob_index)0);
      const ob_index y_begin = max((y + padding_h - reach_h + step_h - 1) / step_h, (ob_index)0);
      const ob_index x_begin = max((x + padding_w - reach_w + step_w - 1) / step_w, (ob_index)0);
      const ob_index z_end = min((z + padding_d) / step_d + 1, out_depth);
      const ob_index y_end = min((y + padding_h) / step_h + 1, out_height);
      const ob_index x_end = min((x + padding_w) / step_w + 1, out_width);
      V sum = 0;
      for (ob_index a = z_begin; a < z_end; ++a) {
        for (ob_index b = y_begin; b < y_end; ++b) {
          const ob_index row = ((plane * out_depth + a) * out_height + b) * out_width;
          for (ob_index c = x_begin; c < x_end; ++c) {
            if (indices[row + c] == place) sum += grad_output_load(row + c);
          }
        }
      }
      out_store(plane * depth * height * width + place, sum);
    }
  }
}

#endif
