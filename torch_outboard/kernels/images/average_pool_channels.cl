// average_pool for channels-last images. A work-group computes rows of a result, several channels
// at once. Needs average_pool.cl before it.

__kernel void average_pool_channels(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(row) {
    const ob_index image = row / out_height;
    const ob_index y = row - image * out_height;
    OB_WINDOW(z, 0, step_d, padding_d, kernel_d, depth)
    OB_WINDOW(y, y, step_h, padding_h, kernel_h, height)
    OB_FOR_CHANNELS(x, first, out_width) {
      OB_WINDOW(x, x, step_w, padding_w, kernel_w, width)
      const bool empty = y_inside <= 0 || x_inside <= 0;
      const int count = (int)min((ob_index)OB_CHANNELS, channels - first);
      V sum[OB_CHANNELS];
      for (int k = 0; k < OB_CHANNELS; ++k) sum[k] = 0;
      for (ob_index b = y_begin; b < y_end; ++b) {
        for (ob_index c = x_begin; c < x_end; ++c) {
          const ob_index at = image * self_layout.stride[0] + b * self_layout.stride[2] +
                              c * self_layout.stride[3] + first;
          if (count == OB_CHANNELS) {
            for (int k = 0; k < OB_CHANNELS; ++k) sum[k] += self_load(at + k);
          } else {
            for (int k = 0; k < count; ++k) sum[k] += self_load(at + k);
          }
        }
      }
      const ob_index to = image * out_layout.stride[0] + first * out_layout.stride[1] +
                          y * out_layout.stride[2] + x * out_layout.stride[3];
      for (int k = 0; k < count; ++k) {
        out_store(to + k * out_layout.stride[1], empty ? (V)0 : sum[k] / (V)OB_DIVISOR);
      }
    }
  }
}
