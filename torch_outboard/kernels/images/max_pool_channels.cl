// max_pool for channels-last images. A work-group computes rows of a result, several channels at
// once. Needs pooling.cl before it.

// `count` channels of one element of the window.
#define OB_TAKE(count)                                     \
  for (int k = 0; k < (count); ++k) {                      \
    const V value = self_load(at + k);                     \
    const int better = (value > best[k]) | (value != value); \
    best[k] = better ? value : best[k];                    \
    places[k] = better ? place : places[k];                \
  }

__kernel void max_pool_channels(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(row) {
    const ob_index image = row / out_height;
    const ob_index y = row - image * out_height;
    const ob_index y_start = first_inside(y * step_h - padding_h, dilation_h);
    const ob_index y_end = min(y * step_h - padding_h + (kernel_h - 1) * dilation_h + 1, height);
    OB_FOR_CHANNELS(x, first, out_width) {
      const ob_index x_start = first_inside(x * step_w - padding_w, dilation_w);
      const ob_index x_end = min(x * step_w - padding_w + (kernel_w - 1) * dilation_w + 1, width);
      const int count = (int)min((ob_index)OB_CHANNELS, channels - first);
      V best[OB_CHANNELS];
      int places[OB_CHANNELS];
      for (int k = 0; k < OB_CHANNELS; ++k) {
        best[k] = OB_LOWEST;
        places[k] = (int)(y_start * width + x_start);
      }
      for (ob_index b = y_start; b < y_end; b += dilation_h) {
        for (ob_index c = x_start; c < x_end; c += dilation_w) {
          const ob_index at = image * self_layout.stride[0] + b * self_layout.stride[2] +
                              c * self_layout.stride[3] + first;
          const int place = (int)(b * width + c);
          if (count == OB_CHANNELS) {
            OB_TAKE(OB_CHANNELS)
          } else {
            OB_TAKE(count)
          }
        }
      }
      const ob_index to = image * out_layout.stride[0] + first * out_layout.stride[1] +
                          y * out_layout.stride[2] + x * out_layout.stride[3];
      const ob_index to_index = image * indices_layout.stride[0] +
                                first * indices_layout.stride[1] +
                                y * indices_layout.stride[2] + x * indices_layout.stride[3];
      for (int k = 0; k < count; ++k) {
        out_store(to + k * out_layout.stride[1], best[k]);
        indices_store(to_index + k * indices_layout.stride[1], (long)places[k]);
      }
    }
  }
}
