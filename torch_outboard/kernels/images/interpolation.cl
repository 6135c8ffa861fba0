// Interpolation along up to three axes, and its backward. MODE:
//   0 nearest   1 nearest-exact   2 linear   3 cubic
//   4 linear, 5 cubic, 6 Lanczos, antialiased: filters widen for downscaling
// ALIGN: align_corners. An axis contributes taps: input indices with weights. The backward adds the
// same taps transposed.

typedef struct {
  ob_index first;
  int count;
  R position;  // between the first two taps, or the centre of an antialiased filter
  R factor;    // of weights
} ob_taps;

#define WIDE (MODE >= 4)
// Radius of a filter, in input elements if it is not widened.
#define REACH ((R)(MODE == 6 ? 3 : MODE == 5 || MODE == 3 ? 2 : 1))

static inline R cubic_near(const R x, const R a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
static inline R cubic_far(const R x, const R a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

static inline R wide_filter(const R offset) {
  const R x = fabs(offset);
#if MODE == 4
  return x < 1 ? 1 - x : (R)0;
#elif MODE == 5
  return x < 1 ? cubic_near(x, (R)-0.5) : x < 2 ? cubic_far(x, (R)-0.5) : (R)0;
#else
  if (x >= 3) return 0;
  if (x == 0) return 1;
  const R angle = (R)M_PI * x;
  return 3 * sin(angle) * sin(angle / 3) / (angle * angle);
#endif
}

static inline ob_taps taps_of(const ob_index o, const ob_index inputs, const ob_index outputs,
                              const R scale) {
  ob_taps taps;
  taps.count = 1;
  taps.factor = 1;
  taps.position = 0;
#if MODE == 0
  taps.first = min((ob_index)floor(o * scale), inputs - 1);
#elif MODE == 1
  taps.first = min((ob_index)floor((o + (R)0.5) * scale), inputs - 1);
#elif MODE == 2
  if (inputs == outputs) {
    taps.first = o;
    return taps;
  }
  const R source = ALIGN ? scale * o : fmax(scale * (o + (R)0.5) - (R)0.5, (R)0);
  taps.first = min((ob_index)source, inputs - 1);
  taps.position = clamp(source - taps.first, (R)0, (R)1);
  taps.count = 2;
#elif MODE == 3
  const R source = ALIGN ? scale * o : scale * (o + (R)0.5) - (R)0.5;
  taps.first = min((ob_index)floor(source), inputs - 1);
  taps.position = clamp(source - taps.first, (R)0, (R)1);
  taps.first -= 1;
  taps.count = 4;
#else
  const R support = scale >= 1 ? REACH * scale : REACH;
  taps.position = scale * (o + (R)0.5);
  taps.factor = scale >= 1 ? 1 / scale : (R)1;
  taps.first = max((ob_index)(taps.position - support + (R)0.5), (ob_index)0);
  const ob_index end = min((ob_index)(taps.position + support + (R)0.5), inputs);
  taps.count = (int)clamp(end - taps.first, (ob_index)0, 2 * (ob_index)ceil(support) + 1);
#endif
  return taps;
}

static inline ob_index tap_index(const ob_taps *taps, const int k, const ob_index inputs) {
#if MODE == 2 || MODE == 3
  return clamp(taps->first + k, (ob_index)0, inputs - 1);
#else
  return taps->first + k;
#endif
}

static inline R tap_weight(const ob_taps *taps, const int k) {
#if MODE < 2
  return 1;
#elif MODE == 2
  return k == 0 ? 1 - taps->position : taps->position;
#elif MODE == 3
  const R t = taps->position, a = (R)-0.75;
  return k == 0   ? cubic_far(t + 1, a)
         : k == 1 ? cubic_near(t, a)
         : k == 2 ? cubic_near(1 - t, a)
                  : cubic_far(2 - t, a);
#else
  return wide_filter((k + taps->first - taps->position + (R)0.5) * taps->factor);
#endif
}

// Weights of a widened filter are divided by their sum.
static inline R tap_scale(const ob_taps *taps) {
#if WIDE
  R total = 0;
  for (int k = 0; k < taps->count; ++k) total += tap_weight(taps, k);
  return total == 0 ? (R)1 : 1 / total;
#else
  return 1;
#endif
}

// Taps along an existing axis; otherwise a single index with weight 1.
#define OB_TAPS(axis, at, inputs, outputs, scale, there)                        \
  ob_taps axis##_taps;                                                          \
  if (there) {                                                                  \
    axis##_taps = taps_of(at, inputs, outputs, scale);                          \
  } else {                                                                      \
    axis##_taps.first = 0;                                                      \
    axis##_taps.count = 1;                                                      \
  }                                                                             \
  const R axis##_scale = there ? tap_scale(&axis##_taps) : (R)1;
#define OB_TAP(axis, k, inputs, there)                                                   \
  const ob_index axis##_at = there ? tap_index(&axis##_taps, k, inputs) : 0;             \
  const R axis##_weight = there ? tap_weight(&axis##_taps, k) * axis##_scale : (R)1;

#if OB_LOCAL == 1

// CPU: taps along rows are computed once. An output row is computed from one line, the weighted sum
// of input rows.
__kernel void find_taps(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(x)
  const ob_taps all = taps_of(x, width, out_width, scale_w);
  const R scale = tap_scale(&all);
  for (int k = 0; k < tap_count; ++k) {
    locations[x * tap_count + k] = k < all.count ? (int)tap_index(&all, k, width) : 0;
    weights[x * tap_count + k] = k < all.count ? tap_weight(&all, k) * scale : (R)0;
  }
}

// Constants, so that compilers unroll loops over taps.
#if MODE < 2
#define TAP_COUNT 1
#elif MODE == 2
#define TAP_COUNT 2
#elif MODE == 3
#define TAP_COUNT 4
#else
#define TAP_COUNT tap_count
#endif

#if !BACKWARD

__kernel void interpolate(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    for (ob_index z = 0; z < out_depth; ++z) {
      for (ob_index y = 0; y < out_height; ++y) {
        OB_TAPS(z, z, depth, out_depth, scale_d, DIMENSIONS > 2)
        OB_TAPS(y, y, height, out_height, scale_h, DIMENSIONS > 1)
        const ob_index to = ((plane * out_depth + z) * out_height + y) * out_width;
#if MODE < 2
        const ob_index from = ((plane * depth + z_taps.first) * height + y_taps.first) * width;
        for (ob_index x = 0; x < out_width; ++x) out_store(to + x, self_load(from + locations[x]));
#else
        __global V *line = lines + plane * width;
        // A scale that does not fit the sizes may lead beyond the input, where there are no taps.
        if (z_taps.count == 0 || y_taps.count == 0) {
          for (ob_index x = 0; x < width; ++x) line[x] = 0;
        }
        for (int i = 0; i < z_taps.count; ++i) {
          OB_TAP(z, i, depth, DIMENSIONS > 2)
          for (int j = 0; j < y_taps.count; ++j) {
            OB_TAP(y, j, height, DIMENSIONS > 1)
            const ob_index row = ((plane * depth + z_at) * height + y_at) * width;
            const R weight = z_weight * y_weight;
            ob_index x = 0;
            if (i == 0 && j == 0) {
              for (; x + W <= width; x += W) {
                OB_VSTORE((T)(weight) * self_load_vector(row + x), line + x);
              }
              for (; x < width; ++x) line[x] = weight * (R)self_load(row + x);
            } else {
              for (; x + W <= width; x += W) {
                OB_VSTORE(OB_VLOAD(line + x) + (T)(weight) * self_load_vector(row + x), line + x);
              }
              for (; x < width; ++x) line[x] += weight * (R)self_load(row + x);
            }
          }
        }
        for (ob_index x = 0; x < out_width; ++x) {
          R sum = 0;
          for (int k = 0; k < TAP_COUNT; ++k) {
            sum += weights[x * TAP_COUNT + k] * line[locations[x * TAP_COUNT + k]];
          }
          out_store(to + x, (V)sum);
        }
#endif
      }
    }
  }
}

#else

// Sums of 16-bit dtypes are in the compute dtype.
#if OB_DTYPE_BITS == 16
#define SUM(i) sums[i]
#else
#define SUM(i) out[i]
#endif

__kernel void interpolate(OB_PARAMETERS) {
  OB_BEGIN
  const ob_index size = depth * height * width;
  OB_FOR_GROUPS(plane) {
    __global V *line = lines + plane * width;
    const ob_index base = plane * size;
    for (ob_index i = base; i < base + size; ++i) SUM(i) = 0;
    for (ob_index z = 0; z < out_depth; ++z) {
      for (ob_index y = 0; y < out_height; ++y) {
        OB_TAPS(z, z, depth, out_depth, scale_d, DIMENSIONS > 2)
        OB_TAPS(y, y, height, out_height, scale_h, DIMENSIONS > 1)
        const ob_index from = ((plane * out_depth + z) * out_height + y) * out_width;
        for (ob_index x = 0; x < width; ++x) line[x] = 0;
        for (ob_index x = 0; x < out_width; ++x) {
          const R value = grad_output_load(from + x);
          for (int k = 0; k < TAP_COUNT; ++k) {
            line[locations[x * TAP_COUNT + k]] += weights[x * TAP_COUNT + k] * value;
          }
        }
        for (int i = 0; i < z_taps.count; ++i) {
          OB_TAP(z, i, depth, DIMENSIONS > 2)
          for (int j = 0; j < y_taps.count; ++j) {
            OB_TAP(y, j, height, DIMENSIONS > 1)
            const ob_index row = base + (z_at * height + y_at) * width;
            const R weight = z_weight * y_weight;
            ob_index x = 0;
            for (; x + W <= width; x += W) {
              OB_VSTORE(OB_VLOAD(&SUM(row + x)) + (T)(weight) * OB_VLOAD(line + x),
                         &SUM(row + x));
            }
            for (; x < width; ++x) SUM(row + x) += weight * line[x];
          }
        }
      }
    }
#if OB_DTYPE_BITS == 16
    for (ob_index i = base; i < base + size; ++i) out_store(i, sums[i]);
#endif
  }
}

#endif

#else

__kernel void find_taps(OB_PARAMETERS) {}

#if !BACKWARD

__kernel void interpolate(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    const ob_index from = plane * depth * height * width;
    OB_FOR_LOCATIONS(z, y, x, out_depth, out_height, out_width) {
      const ob_index to = ((plane * out_depth + z) * out_height + y) * out_width + x;
      OB_TAPS(z, z, depth, out_depth, scale_d, DIMENSIONS > 2)
      OB_TAPS(y, y, height, out_height, scale_h, DIMENSIONS > 1)
      OB_TAPS(x, x, width, out_width, scale_w, 1)
#if MODE < 2
      out_store(to, self_load(from + (z_taps.first * height + y_taps.first) * width + x_taps.first));
#else
      R sum = 0;
      for (int i = 0; i < z_taps.count; ++i) {
        OB_TAP(z, i, depth, DIMENSIONS > 2)
        for (int j = 0; j < y_taps.count; ++j) {
          OB_TAP(y, j, height, DIMENSIONS > 1)
          const ob_index row = from + (z_at * height + y_at) * width;
          R part = 0;
          for (int k = 0; k < x_taps.count; ++k) {
            OB_TAP(x, k, width, 1)
            part += x_weight * (R)self_load(row + x_at);
          }
          sum += z_weight * y_weight * part;
        }
      }
      out_store(to, (V)sum);
#endif
    }
  }
}

#else

// Outputs [begin, end) may have taps at `i`: a range with a slightly larger filter radius. Taps
// clamped into the image are at its border.
#define OB_RANGE(axis, i, inputs, outputs, scale)                                              \
  const R axis##_reach = (REACH + 1) * (WIDE ? fmax(scale, (R)1) : (R)1) + 1;                  \
  const ob_index axis##_begin =                                                                \
      i == 0 || scale == 0 ? 0                                                                 \
                           : clamp((ob_index)((i - axis##_reach) / scale) - 1, (ob_index)0,    \
                                   outputs);                                                   \
  const ob_index axis##_end =                                                                  \
      i == inputs - 1 || scale == 0 ? outputs                                                  \
                                    : clamp((ob_index)((i + axis##_reach) / scale) + 2,        \
                                            (ob_index)0, outputs);

// Weight of the taps of output `o` at `i`.
static inline R weight_at(const ob_index o, const ob_index i, const ob_index inputs,
                          const ob_index outputs, const R scale) {
  const ob_taps taps = taps_of(o, inputs, outputs, scale);
  R sum = 0;
  for (int k = 0; k < taps.count; ++k) {
    if (tap_index(&taps, k, inputs) == i) sum += tap_weight(&taps, k);
  }
  return sum == 0 ? (R)0 : sum * tap_scale(&taps);
}

__kernel void interpolate(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(plane) {
    OB_FOR_LOCATIONS(z, y, x, depth, height, width) {
      OB_RANGE(z, z, depth, out_depth, scale_d)
      OB_RANGE(y, y, height, out_height, scale_h)
      OB_RANGE(x, x, width, out_width, scale_w)
      V sum = 0;
      for (ob_index a = z_begin; a < z_end; ++a) {
        const R z_weight =
            DIMENSIONS > 2 ? weight_at(a, z, depth, out_depth, scale_d) : (R)1;
        if (z_weight == 0) continue;
        for (ob_index b = y_begin; b < y_end; ++b) {
          const R y_weight =
              DIMENSIONS > 1 ? weight_at(b, y, height, out_height, scale_h) : (R)1;
          if (y_weight == 0) continue;
          const ob_index row = ((plane * out_depth + a) * out_height + b) * out_width;
          for (ob_index c = x_begin; c < x_end; ++c) {
            const R x_weight = weight_at(c, x, width, out_width, scale_w);
            if (x_weight == 0) continue;
            sum += (V)(z_weight * y_weight * x_weight) * (V)grad_output_load(row + c);
          }
        }
      }
      out_store(((plane * depth + z) * height + y) * width + x, sum);
    }
  }
}

#endif

#endif
