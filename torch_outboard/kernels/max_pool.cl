// The largest element of each window, and its place in the plane. NaN counts as the largest; of
// several the last.

__kernel void max_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    const ob_index from = plane * depth * height * width;
    OB_FOR_PLACES(z, y, x, out_depth, out_height, out_width) {
      const ob_index z_start = first_inside(z * step_d - padding_d, dilation_d);
      const ob_index y_start = first_inside(y * step_h - padding_h, dilation_h);
      const ob_index x_start = first_inside(x * step_w - padding_w, dilation_w);
      const ob_index z_end = min(z * step_d - padding_d + (kernel_d - 1) * dilation_d + 1, depth);
      const ob_index y_end = min(y * step_h - padding_h + (kernel_h - 1) * dilation_h + 1, height);
      const ob_index x_end = min(x * step_w - padding_w + (kernel_w - 1) * dilation_w + 1, width);
      ob_index place = (z_start * height + y_start) * width + x_start;
      V best = OB_LOWEST;
      for (ob_index a = z_start; a < z_end; a += dilation_d) {
        for (ob_index b = y_start; b < y_end; b += dilation_h) {
          const ob_index row = (a * height + b) * width;
          for (ob_index c = x_start; c < x_end; c += dilation_w) {
            const V value = self_load(from + row + c);
            if (value > best || value != value) {
              best = value;
              place = row + c;
            }
          }
        }
      }
      const ob_index to = ((plane * out_depth + z) * out_height + y) * out_width + x;
      out_store(to, best);
      indices[to] = place;
    }
  }
}
