// Max pooling, and its gradient. Needs pooling.cl before it.

#if HAS_grad_output
#if CHANNELS_LAST

// max_pool_backward for channels-last images. A work-group computes rows of the gradient, several
// channels at once, each from all windows that reach it.

#define OB_TAKE(count)                                                \
  for (int k = 0; k < (count); ++k) {                                 \
    const V gradient = grad_output_load(at + k);                      \
    sums[k] += indices_load(at_index + k) == location ? gradient : 0; \
  }

__kernel void max_pool_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(row) {
    const ob_index image = row / height;
    const ob_index y = row - image * height;
    OB_REACHING(y, y, h, (kernel_h - 1) * dilation_h, out_height)
    OB_FOR_CHANNELS(x, first, width) {
      OB_REACHING(x, x, w, (kernel_w - 1) * dilation_w, out_width)
      const long location = y * width + x;
      const int count = (int)min((ob_index)OB_CHANNELS, channels - first);
      V sums[OB_CHANNELS];
      for (int k = 0; k < OB_CHANNELS; ++k) sums[k] = 0;
      for (ob_index b = y_first; b < y_last; ++b) {
        for (ob_index c = x_first; c < x_last; ++c) {
          const ob_index at = OB_PIXEL(grad_output, b, c) + first;
          const ob_index at_index = OB_PIXEL(indices, b, c) + first;
          if (count == OB_CHANNELS) {
            OB_TAKE(OB_CHANNELS)
          } else {
            OB_TAKE(count)
          }
        }
      }
      const ob_index to = OB_PIXEL(out, y, x) + first * out_layout.stride[1];
      for (int k = 0; k < count; ++k) out_store(to + k * out_layout.stride[1], sums[k]);
    }
  }
}

#else

// The gradient of an element: the sum of the gradients of windows with its index.

#if OB_LOCAL == 1

__kernel void max_pool_backward(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index size = depth * height * width, taken = out_depth * out_height * out_width;
  OB_FOR_GROUPS(plane) {
    for (ob_index i = 0; i < size; ++i) out_store(plane * size + i, (V)0);
    for (ob_index i = plane * taken; i < (plane + 1) * taken; ++i) {
      const ob_index location = ob_checked_index(indices[i], size);
      if (location < 0) continue;
      const ob_index to = plane * size + location;
      out_store(to, (V)out_load(to) + (V)grad_output_load(i));
    }
  }
}

#else

__kernel void max_pool_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    OB_FOR_LOCATIONS(z, y, x, depth, height, width) {
      const ob_index location = (z * height + y) * width + x;
      // Windows that reach this element, with or without a tap at it.
      OB_REACHING(z, z, d, (kernel_d - 1) * dilation_d, out_depth)
      OB_REACHING(y, y, h, (kernel_h - 1) * dilation_h, out_height)
      OB_REACHING(x, x, w, (kernel_w - 1) * dilation_w, out_width)
      V sum = 0;
      for (ob_index a = z_first; a < z_last; ++a) {
        for (ob_index b = y_first; b < y_last; ++b) {
          const ob_index row = ((plane * out_depth + a) * out_height + b) * out_width;
          for (ob_index c = x_first; c < x_last; ++c) {
            if (indices[row + c] == location) sum += grad_output_load(row + c);
          }
        }
      }
      out_store(plane * depth * height * width + location, sum);
    }
  }
}

#endif

#endif

#else

// Windows, each from BEGIN to END by STEP: ADAPTIVE ones, which divide an image evenly and may
// overlap by an element; windows at pseudo-random locations, `samples` numbers per plane; or
// windows with strides and dilation.
#if ADAPTIVE
#define WINDOWS_OF_PLANE
#define WINDOW(o, outputs, inputs, kernel_size, sample)                     \
  const ob_index o##_begin = window_begin(o, outputs, inputs);              \
  const ob_index o##_end = window_end(o, outputs, inputs);
#define WINDOW_Z(z) WINDOW(z, out_depth, depth, , )
#define WINDOW_Y(y) WINDOW(y, out_height, height, , )
#define WINDOW_X(x) WINDOW(x, out_width, width, , )
#define STEP(axis) 1
#elif HAS_random_samples
// Rounded to the dtype of the samples, in which the CPU kernel computes.
static inline V rounded(const V value) {
  long memory;
  random_samples_t *random_samples = (random_samples_t *)&memory;
  random_samples_store(0, value);
  return random_samples_load(0);
}

static inline ob_index interval(const ob_index o, const V sample, const ob_index inputs,
                                const ob_index outputs, const ob_index kernel_size) {
  if (o == outputs - 1) return inputs - kernel_size;
  const V alpha = rounded(rounded((V)(inputs - kernel_size)) / rounded((V)(outputs - 1)));
  return (ob_index)rounded(rounded(rounded((V)o) + sample) * alpha) -
         (ob_index)rounded(sample * alpha);
}

// Samples are in the order (width, height) or (depth, height, width).
#define WINDOWS_OF_PLANE                                    \
  const ob_index at = plane * samples;                      \
  const V for_depth = random_samples_load(at);              \
  const V for_height = random_samples_load(at + 1);         \
  const V for_width = random_samples_load(at + (samples == 2 ? 0 : 2));
#define WINDOW(o, outputs, inputs, kernel_size, sample)                               \
  const ob_index o##_begin = interval(o, sample, inputs, outputs, kernel_size);       \
  const ob_index o##_end = min(o##_begin + kernel_size, inputs);
#define WINDOW_Z(z)                                                                               \
  const ob_index z_begin = samples == 2 ? 0 : interval(z, for_depth, depth, out_depth, kernel_d); \
  const ob_index z_end = min(z_begin + kernel_d, depth);
#define WINDOW_Y(y) WINDOW(y, out_height, height, kernel_h, for_height)
#define WINDOW_X(x) WINDOW(x, out_width, width, kernel_w, for_width)
#define STEP(axis) 1
#else
#define WINDOWS_OF_PLANE
#define WINDOW(o, axis, inputs)                                                                 \
  const ob_index o##_begin = first_inside(o * step_##axis - padding_##axis, dilation_##axis);   \
  const ob_index o##_end =                                                                      \
      min(o * step_##axis - padding_##axis + (kernel_##axis - 1) * dilation_##axis + 1, inputs);
#define WINDOW_Z(z) WINDOW(z, d, depth)
#define WINDOW_Y(y) WINDOW(y, h, height)
#define WINDOW_X(x) WINDOW(x, w, width)
#define STEP(axis) dilation_##axis
#endif

#if CHANNELS_LAST

// max_pool for channels-last images. A work-group computes rows of a result, several channels at
// once.

// `count` channels of one element of the window.
#define OB_TAKE(count)                                       \
  for (int k = 0; k < (count); ++k) {                        \
    const V value = self_load(at + k);                       \
    const int better = (value > best[k]) | (value != value); \
    best[k] = better ? value : best[k];                      \
    locations[k] = better ? location : locations[k];         \
  }

__kernel void max_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(row) {
    const ob_index image = row / out_height;
    const ob_index y = row - image * out_height;
    WINDOW_Y(y)
    OB_FOR_CHANNELS(x, first, out_width) {
      WINDOW_X(x)
      const int count = (int)min((ob_index)OB_CHANNELS, channels - first);
      V best[OB_CHANNELS];
      int locations[OB_CHANNELS];
      for (int k = 0; k < OB_CHANNELS; ++k) {
        best[k] = OB_LOWEST;
        locations[k] = (int)(y_begin * width + x_begin);
      }
      for (ob_index b = y_begin; b < y_end; b += dilation_h) {
        for (ob_index c = x_begin; c < x_end; c += dilation_w) {
          const ob_index at = OB_PIXEL(self, b, c) + first;
          const int location = (int)(b * width + c);
          if (count == OB_CHANNELS) {
            OB_TAKE(OB_CHANNELS)
          } else {
            OB_TAKE(count)
          }
        }
      }
      const ob_index to = OB_PIXEL(out, y, x) + first * out_layout.stride[1];
      const ob_index to_index = OB_PIXEL(indices, y, x) + first * indices_layout.stride[1];
      for (int k = 0; k < count; ++k) {
        out_store(to + k * out_layout.stride[1], best[k]);
        indices_store(to_index + k * indices_layout.stride[1], (long)locations[k]);
      }
    }
  }
}

#else

// Max pooling: the largest element of each window and its index in the plane. NaN is the largest;
// of equal elements the last.

// Branch-free, because the outcome is unpredictable.
#define OB_TAKE(value, at, best, location)             \
  {                                                    \
    const V ob_v = value;                              \
    const int better = (ob_v > best) | (ob_v != ob_v); \
    best = better ? ob_v : best;                       \
    location = better ? (at) : location;               \
  }

// The window of one output, clipped to the image.
#define OB_ONE_LOCATION(z, y, x)                                                    \
  {                                                                                 \
    WINDOW_Z(z) WINDOW_Y(y) WINDOW_X(x)                                             \
    ob_index location = (z_begin * height + y_begin) * width + x_begin;             \
    V best = OB_LOWEST;                                                             \
    for (ob_index a = z_begin; a < z_end; a += STEP(d)) {                           \
      for (ob_index b = y_begin; b < y_end; b += STEP(h)) {                         \
        const ob_index row = (a * height + b) * width;                              \
        for (ob_index c = x_begin; c < x_end; c += STEP(w)) {                       \
          OB_TAKE(self_load(from + row + c), row + c, best, location)               \
        }                                                                           \
      }                                                                             \
    }                                                                               \
    const ob_index to = ((plane * out_depth + z) * out_height + y) * out_width + x; \
    out_store(to, best);                                                            \
    indices[to] = location;                                                         \
  }

#if OB_LOCAL == 1 && !ADAPTIVE && !HAS_random_samples

// CPU: adjacent outputs at once if their windows are inside horizontally.
#define OB_ADJACENT 16
// Windows with stride `step`: constant strides vectorize.
#define OB_TAPS(step)                                                                        \
  for (ob_index a = z_begin; a < z_end; a += dilation_d) {                                   \
    for (ob_index b = y_begin; b < y_end; b += dilation_h) {                                 \
      for (ob_index c = 0; c < kernel_w; ++c) {                                              \
        const ob_index at = (a * height + b) * width + left + c * dilation_w;                \
        for (int k = 0; k < OB_ADJACENT; ++k) {                                              \
          OB_TAKE(self_load(from + at + k * (step)), (int)at + k * (int)(step), best[k], locations[k]) \
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
      WINDOW_Z(z)
      for (ob_index y = 0; y < out_height; ++y) {
        WINDOW_Y(y)
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
            OB_ONE_LOCATION(z, y, x)
            ++x;
            continue;
          }
          V best[OB_ADJACENT];
          int locations[OB_ADJACENT];
          for (int k = 0; k < OB_ADJACENT; ++k) {
            best[k] = OB_LOWEST;
            locations[k] = (int)((z_begin * height + y_begin) * width + left + k * step_w);
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
            indices[to + k] = locations[k];
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
    WINDOWS_OF_PLANE
    const ob_index from = plane * depth * height * width;
    OB_FOR_LOCATIONS(z, y, x, out_depth, out_height, out_width) OB_ONE_LOCATION(z, y, x)
  }
}

#endif

#endif
#endif
