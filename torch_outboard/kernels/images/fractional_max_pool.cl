// Fractional max pooling: windows at pseudo-random locations, `samples` numbers per plane.

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

__kernel void fractional_max_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    // Samples are in the order (width, height) or (depth, height, width).
    const ob_index at = plane * samples;
    const V for_depth = random_samples_load(at);
    const V for_height = random_samples_load(at + 1);
    const V for_width = random_samples_load(at + (samples == 2 ? 0 : 2));
    const ob_index from = plane * depth * height * width;
    OB_FOR_PLACES(z, y, x, out_depth, out_height, out_width) {
      const ob_index z_begin =
          samples == 2 ? 0 : interval(z, for_depth, depth, out_depth, kernel_d);
      const ob_index y_begin = interval(y, for_height, height, out_height, kernel_h);
      const ob_index x_begin = interval(x, for_width, width, out_width, kernel_w);
      ob_index place = (z_begin * height + y_begin) * width + x_begin;
      V best = OB_LOWEST;
      for (ob_index a = max(z_begin, (ob_index)0); a < min(z_begin + kernel_d, depth); ++a) {
        for (ob_index b = max(y_begin, (ob_index)0); b < min(y_begin + kernel_h, height); ++b) {
          const ob_index row = (a * height + b) * width;
          for (ob_index c = max(x_begin, (ob_index)0); c < min(x_begin + kernel_w, width); ++c) {
            const V value = self_load(from + row + c);
            if (value > best || value != value) {
              best = value;
              place = row + c;
            }
          }
        }
      }
      const ob_index to = ((plane * out_depth + z) * out_height + y) * out_width + x;
      output_store(to, best);
      indices[to] = place;
    }
  }
}
