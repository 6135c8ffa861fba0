// Adaptive pooling: windows divide an image evenly and may overlap by an element.

#define OB_ADAPTIVE_WINDOWS                                   \
  const ob_index z_begin = window_begin(z, out_depth, depth);  \
  const ob_index y_begin = window_begin(y, out_height, height);  \
  const ob_index x_begin = window_begin(x, out_width, width);  \
  const ob_index z_end = window_end(z, out_depth, depth);  \
  const ob_index y_end = window_end(y, out_height, height);  \
  const ob_index x_end = window_end(x, out_width, width);

#if MAXIMUM

__kernel void adaptive_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    const ob_index from = plane * depth * height * width;
    OB_FOR_PLACES(z, y, x, out_depth, out_height, out_width) {
      OB_ADAPTIVE_WINDOWS
      ob_index place = (z_begin * height + y_begin) * width + x_begin;
      V best = OB_LOWEST;
      for (ob_index a = z_begin; a < z_end; ++a) {
        for (ob_index b = y_begin; b < y_end; ++b) {
          const ob_index row = (a * height + b) * width;
          for (ob_index c = x_begin; c < x_end; ++c) {
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

#elif !BACKWARD

__kernel void adaptive_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    const ob_index from = plane * depth * height * width;
    OB_FOR_PLACES(z, y, x, out_depth, out_height, out_width) {
      OB_ADAPTIVE_WINDOWS
      V sum = 0;
      for (ob_index a = z_begin; a < z_end; ++a) {
        for (ob_index b = y_begin; b < y_end; ++b) {
          const ob_index row = from + (a * height + b) * width;
          for (ob_index c = x_begin; c < x_end; ++c) sum += (V)self_load(row + c);
        }
      }
      out_store(((plane * out_depth + z) * out_height + y) * out_width + x,
                sum / (V)((z_end - z_begin) * (y_end - y_begin) * (x_end - x_begin)));
    }
  }
}

#elif OB_LOCAL == 1

__kernel void adaptive_pool(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index size = depth * height * width;
  OB_FOR_GROUPS(plane) {
    for (ob_index i = 0; i < size; ++i) out_store(plane * size + i, (V)0);
    OB_FOR_PLACES(z, y, x, out_depth, out_height, out_width) {
      OB_ADAPTIVE_WINDOWS
      const ob_index at = ((plane * out_depth + z) * out_height + y) * out_width + x;
      const V share = (V)grad_output_load(at) /
                      (V)((z_end - z_begin) * (y_end - y_begin) * (x_end - x_begin));
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

// Window `o` contains element i exactly for o in [i * outputs / inputs, (i + 1) * outputs /
// inputs), rounded outwards: windows of the transposed problem.
__kernel void adaptive_pool(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    OB_FOR_PLACES(z, y, x, depth, height, width) {
      const ob_index z_end = window_end(z, depth, out_depth);
      const ob_index y_end = window_end(y, height, out_height);
      const ob_index x_end = window_end(x, width, out_width);
      V sum = 0;
      for (ob_index a = window_begin(z, depth, out_depth); a < z_end; ++a) {
        const ob_index d = window_end(a, out_depth, depth) - window_begin(a, out_depth, depth);
        for (ob_index b = window_begin(y, height, out_height); b < y_end; ++b) {
          const ob_index h = window_end(b, out_height, height) - window_begin(b, out_height, height);
          const ob_index row = ((plane * out_depth + a) * out_height + b) * out_width;
          for (ob_index c = window_begin(x, width, out_width); c < x_end; ++c) {
            const ob_index w = window_end(c, out_width, width) - window_begin(c, out_width, width);
            sum += (V)grad_output_load(row + c) / (V)(d * h * w);
          }
        }
      }
      out_store(((plane * depth + z) * height + y) * width + x, sum);
    }
  }
}

#endif
