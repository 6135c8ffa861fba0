// max_pool_backward for channels-last images. A work-group computes rows of the gradient, several
// channels at once, each from all windows that reach it. Needs pooling.cl before it.

#define OB_TAKE(count)                                             \
  for (int k = 0; k < (count); ++k) {                              \
    const V gradient = grad_output_load(at + k);                   \
    sums[k] += indices_load(at_index + k) == place ? gradient : 0; \
  }

__kernel void max_pool_backward_channels(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index reach_h = (kernel_h - 1) * dilation_h, reach_w = (kernel_w - 1) * dilation_w;
  OB_FOR_GROUPS(row) {
    const ob_index image = row / height;
    const ob_index y = row - image * height;
    const ob_index y_begin = max((y + padding_h - reach_h + step_h - 1) / step_h, (ob_index)0);
    const ob_index y_end = min((y + padding_h) / step_h + 1, out_height);
    OB_FOR_CHANNELS(x, first, width) {
      const ob_index x_begin = max((x + padding_w - reach_w + step_w - 1) / step_w, (ob_index)0);
      const ob_index x_end = min((x + padding_w) / step_w + 1, out_width);
      const long place = y * width + x;
      const int count = (int)min((ob_index)OB_CHANNELS, channels - first);
      V sums[OB_CHANNELS];
      for (int k = 0; k < OB_CHANNELS; ++k) sums[k] = 0;
      for (ob_index b = y_begin; b < y_end; ++b) {
        for (ob_index c = x_begin; c < x_end; ++c) {
          const ob_index at = image * grad_output_layout.stride[0] +
                              b * grad_output_layout.stride[2] +
                              c * grad_output_layout.stride[3] + first;
          const ob_index at_index = image * indices_layout.stride[0] +
                                    b * indices_layout.stride[2] +
                                    c * indices_layout.stride[3] + first;
          if (count == OB_CHANNELS) {
            OB_TAKE(OB_CHANNELS)
          } else {
            OB_TAKE(count)
          }
        }
      }
      const ob_index to = image * out_layout.stride[0] + first * out_layout.stride[1] +
                          y * out_layout.stride[2] + x * out_layout.stride[3];
      for (int k = 0; k < count; ++k) out_store(to + k * out_layout.stride[1], sums[k]);
    }
  }
}
