// Max pooling: the largest element of each window and its index in the plane. NaN is the largest;
// of equal elements the last. Needs pooling.cl before it.

// Branch-free, because the outcome is unpredictable.
#define OB_TAKE(value, at, best, place)              \
  {                                                  \
    const V ob_v = value;                            \
    const int better = (ob_v > best) | (ob_v != ob_v); \
    best = better ? ob_v : best;                     \
    place = better ? (at) : place;                   \
  }

// The window of one output, clipped to the image.
#define OB_ONE_PLACE(z, y, x)                                                                    \
  {                                                                                              \
    const ob_index z_start = first_inside(z * step_d - padding_d, dilation_d);                   \
    const ob_index y_start = first_inside(y * step_h - padding_h, dilation_h);                   \
    const ob_index x_start = first_inside(x * step_w - padding_w, dilation_w);                   \
    const ob_index z_end = min(z * step_d - padding_d + (kernel_d - 1) * dilation_d + 1, depth); \
    const ob_index y_end = min(y * step_h - padding_h + (kernel_h - 1) * dilation_h + 1, height); \
    const ob_index x_end = min(x * step_w - padding_w + (kernel_w - 1) * dilation_w + 1, width); \
    ob_index place = (z_start * height + y_start) * width + x_start;                             \
    V best = OB_LOWEST;                                                                          \
    for (ob_index a = z_start; a < z_end; a += dilation_d) {                                     \
      for (ob_index b = y_start; b < y_end; b += dilation_h) {                                   \
        const ob_index row = (a * height + b) * width;                                           \
        for (ob_index c = x_start; c < x_end; c += dilation_w) {                                 \
          OB_TAKE(self_load(from + row + c), row + c, best, place)                               \
        }                                                                                        \
      }                                                                                          \
    }                                                                                            \
    const ob_index to = ((plane * out_depth + z) * out_height + y) * out_width + x;              \
    out_store(to, best);                                                                         \
    indices[to] = place;                                                                         \
  }

#if OB_LOCAL == 1

// CPU: adjacent outputs at once if their windows are inside horizontally.
#define OB_ADJACENT 16
// Windows with stride `step`: constant strides vectorize.
#define OB_TAPS(step)                                                                        \
  for (ob_index a = z_start; a < z_end; a += dilation_d) {                                   \
    for (ob_index b = y_start; b < y_end; b += dilation_h) {                                 \
      for (ob_index c = 0; c < kernel_w; ++c) {                                              \
        const ob_index at = (a * height + b) * width + left + c * dilation_w;                \
        for (int k = 0; k < OB_ADJACENT; ++k) {                                              \
          OB_TAKE(self_load(from + at + k * (step)), (int)at + k * (int)(step), best[k], places[k]) \
        }                                                                                    \
      }                                                                                      \
    }                                                                                        \
  }

__kernel void max_pool(OB_PARAMETERS) {
  OB_BEGIN
  // The first and the last output with adjacent windows inside.
  const ob_index first_whole = (padding_w + step_w - 1) / step_w;
  const ob_index free = width - 1 - (kernel_w - 1) * dilation_w + padding_w;
  const ob_index last_whole =
      min(free < 0 ? -1 : free / step_w, out_width - 1) - (OB_ADJACENT - 1);
  OB_FOR_GROUPS(plane) {
    const ob_index from = plane * depth * height * width;
    for (ob_index z = 0; z < out_depth; ++z) {
      const ob_index z_start = first_inside(z * step_d - padding_d, dilation_d);
      const ob_index z_end = min(z * step_d - padding_d + (kernel_d - 1) * dilation_d + 1, depth);
      for (ob_index y = 0; y < out_height; ++y) {
        const ob_index y_start = first_inside(y * step_h - padding_h, dilation_h);
        const ob_index y_end =
            min(y * step_h - padding_h + (kernel_h - 1) * dilation_h + 1, height);
        ob_index x = 0;
        while (x < out_width) {
          // Some outputs are computed twice to stay vectorized.
          if (last_whole >= first_whole && x > last_whole && x < last_whole + OB_ADJACENT) {
            x = last_whole;
          }
          const ob_index left = x * step_w - padding_w;
          const ob_index right = left + (OB_ADJACENT - 1) * step_w + (kernel_w - 1) * dilation_w;
          if (left < 0 || right >= width || x + OB_ADJACENT > out_width ||
              depth * height * width > INT_MAX) {
            OB_ONE_PLACE(z, y, x)
            ++x;
            continue;
          }
          V best[OB_ADJACENT];
          int places[OB_ADJACENT];
          for (int k = 0; k < OB_ADJACENT; ++k) {
            best[k] = OB_LOWEST;
            places[k] = (int)((z_start * height + y_start) * width + left + k * step_w);
          }
          if (step_w == 1) {
            OB_TAPS(1)
          } else if (step_w == 2) {
            OB_TAPS(2)
          } else {
            OB_TAPS(step_w)
          }
          const ob_index to = ((plane * out_depth + z) * out_height + y) * out_width + x;
          for (int k = 0; k < OB_ADJACENT; ++k) {
            out_store(to + k, best[k]);
            indices[to + k] = places[k];
          }
          x += OB_ADJACENT;
        }
      }
    }
  }
}

#else

__kernel void max_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    const ob_index from = plane * depth * height * width;
    OB_FOR_PLACES(z, y, x, out_depth, out_height, out_width) OB_ONE_PLACE(z, y, x)
  }
}

#endif
