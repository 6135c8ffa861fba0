// Average pooling and its gradient. The divisor of a window's sum is `divisor`, or the size of the
// window with or without padding. ADAPTIVE: windows divide an image evenly and may overlap by an
// element. Needs pooling.cl before it.

// Window `o` of an axis, z, y or x, and the windows that reach element `i`.
#if ADAPTIVE
#define OB_WINDOW(name, o, outputs, size)                             \
  const ob_index name##_begin = window_begin(o, outputs, size);       \
  const ob_index name##_end = window_end(o, outputs, size);           \
  const ob_index name##_inside = name##_end - name##_begin;
#define WINDOW_Z(o) OB_WINDOW(z, o, out_depth, depth)
#define WINDOW_Y(o) OB_WINDOW(y, o, out_height, height)
#define WINDOW_X(o) OB_WINDOW(x, o, out_width, width)
#define OB_DIVISOR (z_inside * y_inside * x_inside)
// Exactly the windows of the transposed problem.
#define REACHING(name, i, inputs, outputs)                           \
  const ob_index name##_first = window_begin(i, inputs, outputs);    \
  const ob_index name##_last = window_end(i, inputs, outputs);
#define REACHING_Z(i) REACHING(z, i, depth, out_depth)
#define REACHING_Y(i) REACHING(y, i, height, out_height)
#define REACHING_X(i) REACHING(x, i, width, out_width)
#else
#define OB_WINDOW(name, o, step, padding, kernel, size)                            \
  ob_index name##_begin = (o) * (step) - (padding);                                \
  ob_index name##_end = min(name##_begin + (kernel), (size) + (padding));          \
  const ob_index name##_padded = name##_end - name##_begin;                        \
  name##_begin = max(name##_begin, (ob_index)0);                                   \
  name##_end = min(name##_end, (ob_index)(size));                                  \
  const ob_index name##_inside = name##_end - name##_begin;
#define WINDOW_Z(o) OB_WINDOW(z, o, step_d, padding_d, kernel_d, depth)
#define WINDOW_Y(o) OB_WINDOW(y, o, step_h, padding_h, kernel_h, height)
#define WINDOW_X(o) OB_WINDOW(x, o, step_w, padding_w, kernel_w, width)
#define OB_DIVISOR                                                \
  (divisor != 0 ? divisor                                         \
   : padded     ? z_padded * y_padded * x_padded                  \
                : z_inside * y_inside * x_inside)
#define REACHING_Z(i) OB_REACHING(z, i, d, kernel_d - 1, out_depth)
#define REACHING_Y(i) OB_REACHING(y, i, h, kernel_h - 1, out_height)
#define REACHING_X(i) OB_REACHING(x, i, w, kernel_w - 1, out_width)
#endif

#if CHANNELS_LAST

// A work-group computes rows of a result, several channels at once.
__kernel void average_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(row) {
    const ob_index image = row / out_height;
    const ob_index y = row - image * out_height;
    WINDOW_Z(0)
    WINDOW_Y(y)
    OB_FOR_CHANNELS(x, first, out_width) {
      WINDOW_X(x)
      const bool empty = y_inside <= 0 || x_inside <= 0;
      const int count = (int)min((ob_index)OB_CHANNELS, channels - first);
      V sum[OB_CHANNELS];
      for (int k = 0; k < OB_CHANNELS; ++k) sum[k] = 0;
      for (ob_index b = y_begin; b < y_end; ++b) {
        for (ob_index c = x_begin; c < x_end; ++c) {
          const ob_index at = OB_PIXEL(self, b, c) + first;
          if (count == OB_CHANNELS) {
            for (int k = 0; k < OB_CHANNELS; ++k) sum[k] += self_load(at + k);
          } else {
            for (int k = 0; k < count; ++k) sum[k] += self_load(at + k);
          }
        }
      }
      const ob_index to = OB_PIXEL(out, y, x) + first * out_layout.stride[1];
      for (int k = 0; k < count; ++k) {
        out_store(to + k * out_layout.stride[1], empty ? (V)0 : sum[k] / (V)OB_DIVISOR);
      }
    }
  }
}

#elif !BACKWARD

__kernel void average_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    const ob_index from = plane * depth * height * width;
    OB_FOR_LOCATIONS(z, y, x, out_depth, out_height, out_width) {
      WINDOW_Z(z) WINDOW_Y(y) WINDOW_X(x)
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
    OB_FOR_LOCATIONS(z, y, x, out_depth, out_height, out_width) {
      WINDOW_Z(z) WINDOW_Y(y) WINDOW_X(x)
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
    OB_FOR_LOCATIONS(i, j, k, depth, height, width) {
      REACHING_Z(i) REACHING_Y(j) REACHING_X(k)
      V sum = 0;
      for (ob_index a = z_first; a < z_last; ++a) {
        WINDOW_Z(a)
        for (ob_index b = y_first; b < y_last; ++b) {
          WINDOW_Y(b)
          const ob_index row = ((plane * out_depth + a) * out_height + b) * out_width;
          for (ob_index c = x_first; c < x_last; ++c) {
            WINDOW_X(c)
            sum += (V)grad_output_load(row + c) / (V)OB_DIVISOR;
          }
        }
      }
      out_store(((plane * depth + i) * height + j) * width + k, sum);
    }
  }
}

#endif
