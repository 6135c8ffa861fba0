// Interpolation of uint8 in two dimensions, in integers: columns first, then rows of the resulting
// bytes. Weights are computed as doubles and rounded to as many bits as fit in 16. TAPS: 2 for
// linear, 4 for cubic filters; WIDE: antialias, filters widen for downscaling; ALIGN:
// align_corners.

// Per axis: sizes, scale (input elements per output element), and the first output index among
// those of both axes. An output index has `slots` weights, `counts` of them valid.
#define COLUMNS 0
#define INPUTS(axis) (axis == COLUMNS ? width : height)
#define OUTPUTS(axis) (axis == COLUMNS ? out_width : out_height)
#define SCALE(axis) (axis == COLUMNS ? scale_w : scale_h)
#define START(axis) (axis == COLUMNS ? 0 : out_width)

static inline double filter(const double offset) {
  const double x = fabs(offset);
#if TAPS == 2
  return x < 1 ? 1 - x : 0;
#else
  const double a = WIDE ? -0.5 : -0.75;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
#endif
}

__kernel void byte_weights(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(location)
  const int axis = location >= out_width;
  const ob_index o = location - START(axis), inputs = INPUTS(axis);
  const double scale = SCALE(axis);
  __global double *weight = weights + location * slots;
  double largest = 0;
#if WIDE
  const double support = scale >= 1 ? TAPS * 0.5 * scale : TAPS * 0.5;
  const double center = scale * (o + 0.5), narrowing = scale >= 1 ? 1 / scale : 1.0;
  const ob_index first = max((ob_index)(center - support + 0.5), (ob_index)0);
  const ob_index end = min((ob_index)(center + support + 0.5), inputs);
  const ob_index count = clamp(end - first, (ob_index)0, 2 * (ob_index)ceil(support) + 1);
  double total = 0;
  for (ob_index k = 0; k < count; ++k) {
    weight[k] = filter((k + first - center + 0.5) * narrowing);
    total += weight[k];
  }
  for (ob_index k = 0; k < count; ++k) {
    if (total != 0) weight[k] /= total;
    largest = fmax(largest, weight[k]);
  }
#else
  double source = ALIGN ? scale * o : scale * (o + 0.5) - 0.5;
  if (TAPS == 2 && source < 0) source = 0;
  const ob_index nearest = min((ob_index)floor(source), inputs - 1);
  const double part = clamp(source - nearest, 0.0, 1.0);
  const ob_index before = nearest - TAPS / 2 + 1;
  const ob_index first = max(before, (ob_index)0);
  const ob_index count = min(nearest + TAPS / 2 + 1, inputs) - first;
  // Weights of indices outside of the image are added to its edges.
  for (ob_index k = 0; k < count; ++k) weight[k] = 0;
  for (ob_index k = 0; k < TAPS; ++k) {
    const ob_index to = clamp(before + k, (ob_index)0, inputs - 1) - first;
    weight[to] += filter(k + 1 - TAPS / 2 - part);
    largest = fmax(largest, weight[to]);
  }
#endif
  firsts[location] = (int)first;
  counts[location] = (int)count;
  maxima[location] = largest;
}

// Precision of an axis's weights in bits.
__kernel void byte_precisions(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(V)
  OB_FOR_GROUPS(axis) {
    double largest = 0;
    for (ob_index o = OB_LANE; o < OUTPUTS(axis); o += OB_LOCAL) {
      largest = fmax(largest, maxima[START(axis) + o]);
    }
    largest = OB_GROUP_MAX(largest);
    int bits = 0;
    while (bits < 22 && (int)(0.5 + largest * (1 << (bits + 1))) < (1 << 15)) ++bits;
    precisions[axis] = bits;
  }
}

__kernel void byte_round(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index location = i / slots;
  if (i - location * slots >= counts[location]) return;
  const double v = weights[i] * (1 << precisions[location >= out_width]);
  rounded[i] = (int)(v < 0 ? v - 0.5 : v + 0.5);
}

// A sum of bytes with stride `step` from `from` on.
#define SUM_BYTES(bytes, from, step, location, axis)                                               \
  int sum = 1 << (precisions[axis] - 1);                                                           \
  for (int k = 0; k < counts[location]; ++k) {                                                     \
    sum += (int)bytes[(from) + (firsts[location] + k) * (step)] * rounded[(location) * slots + k]; \
  }                                                                                                \
  const uchar byte = (uchar)clamp(sum >> precisions[axis], 0, 255);

// If only one axis changes its size, there is only one pass.
__kernel void byte_columns(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index line = i / out_width, x = i - line * out_width;
  SUM_BYTES(self, line * width, 1, x, 0)
  if (height == out_height) {
    out[i] = byte;
  } else {
    lines[i] = byte;
  }
}

__kernel void byte_rows(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index line = i / out_width, x = i - line * out_width;
  const ob_index plane = line / out_height, y = line - plane * out_height;
  const ob_index from = plane * height * out_width + x, location = out_width + y;
  if (width == out_width) {
    SUM_BYTES(self, from, out_width, location, 1)
    out[i] = byte;
  } else {
    SUM_BYTES(lines, from, out_width, location, 1)
    out[i] = byte;
  }
}

__kernel void byte_copy(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  out[i] = self[i];
}
