// Samples of an image at the coordinates of a grid, which are from -1 to 1. MODE: 0 linear, 1
// nearest, 2 cubic (2-d only); PADDING: 0 zeros, 1 border, 2 reflection; DIMENSIONS: 2 or 3. A grid
// has coordinates in the order width, height, depth.

// A coordinate in elements, and its derivative with respect to the grid coordinate.
typedef struct {
  V at, slope;
} ob_coordinate;

static inline ob_coordinate in_elements(const V value, const ob_index size) {
  ob_coordinate result;
  result.at = ALIGN ? (value + 1) / 2 * (size - 1) : ((value + 1) * size - 1) / 2;
  result.slope = (V)(ALIGN ? size - 1 : size) / 2;
  return result;
}

static inline ob_coordinate padded(ob_coordinate c, const ob_index size) {
#if PADDING == 2
  const V low = ALIGN ? (V)0 : (V)-0.5;
  const V span = ALIGN ? (V)(size - 1) : (V)size;
  if (span == 0) {
    c.at = 0;
    c.slope = 0;
  } else {
    V distance = c.at - low;
    if (distance < 0) {
      distance = -distance;
      c.slope = -c.slope;
    }
    const V extra = fmod(distance, span);
    if (fmod(floor(distance / span), (V)2) == 0) {
      c.at = extra + low;
    } else {
      c.at = span - extra + low;
      c.slope = -c.slope;
    }
  }
#endif
#if PADDING != 0
#if DIMENSIONS == 3  // CPU clamps NaN to the other end
  if (c.at != c.at) c.at = size - 1;
#endif
  if (!(c.at > 0)) {
    c.at = 0;
    c.slope = 0;
  } else if (c.at >= size - 1) {
    c.at = size - 1;
    c.slope = 0;
  }
#endif
  // Far outside, or NaN: an index that is representable and outside.
  if (!(c.at > -100 && c.at < (V)size + 100)) c.at = -100;
  return c;
}

#if MODE == 2
#define TAPS 4
#elif MODE == 1
#define TAPS 1
#else
#define TAPS 2
#endif

// Indices along an axis with weights and their derivatives with respect to the grid coordinate.
typedef struct {
  ob_index at[TAPS];
  V weight[TAPS], slope[TAPS];
} ob_axis;

static inline ob_axis axis_of(const V value, const ob_index size) {
  ob_axis axis;
  const ob_coordinate plain = in_elements(value, size);
#if MODE == 0
  const ob_coordinate c = padded(plain, size);
  const V lower = floor(c.at), t = c.at - lower;
  axis.at[0] = (ob_index)lower;
  axis.at[1] = axis.at[0] + 1;
  axis.weight[0] = 1 - t;
  axis.weight[1] = t;
  axis.slope[0] = -c.slope;
  axis.slope[1] = c.slope;
#elif MODE == 1
  axis.at[0] = (ob_index)rint(padded(plain, size).at);
  axis.weight[0] = 1;
  axis.slope[0] = 0;
#else
  const V a = (V)-0.75, lower = floor(plain.at), t = plain.at - lower;
  for (int k = 0; k < 4; ++k) {
    ob_coordinate each;
    each.at = lower + (k - 1);
    each.slope = 0;
    axis.at[k] = (ob_index)padded(each, size).at;
    const V x = fabs(t - (k - 1)), sign = t < k - 1 ? (V)-1 : (V)1;
    if (k == 1 || k == 2) {
      axis.weight[k] = ((a + 2) * x - (a + 3)) * x * x + 1;
      axis.slope[k] = (3 * (a + 2) * x - 2 * (a + 3)) * x;
    } else {
      axis.weight[k] = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
      axis.slope[k] = (3 * a * x - 10 * a) * x + 8 * a;
    }
    axis.slope[k] *= sign * plain.slope;
  }
#endif
  return axis;
}

static inline ob_axis no_axis() {
  ob_axis axis;
  for (int k = 0; k < TAPS; ++k) {
    axis.at[k] = k == 0 ? 0 : -1;
    axis.weight[k] = 1;
    axis.slope[k] = 0;
  }
  return axis;
}

#define OB_AXES(location)                                                                   \
  const ob_axis x_axis = axis_of(grid_load((location) * DIMENSIONS), width);                \
  const ob_axis y_axis = axis_of(grid_load((location) * DIMENSIONS + 1), height);           \
  const ob_axis z_axis =                                                                    \
      DIMENSIONS == 3 ? axis_of(grid_load((location) * DIMENSIONS + DIMENSIONS - 1), depth) : no_axis();

// Initial values of sums: NaN if a factor of every product is NaN, including taps outside, which
// count as 0 on CPU. There linear samples are outside if a coordinate is NaN, except for 2-d images
// with zero padding.
#define OB_GRID(d) ((V)grid_load(location * DIMENSIONS + (d)))
#if MODE == 2
#define OB_START (0 * fabs(OB_GRID(0) + OB_GRID(1)))
#define OB_START_X OB_START
#define OB_START_Y OB_START
#elif MODE == 0 && PADDING == 0 && DIMENSIONS == 2
#define OB_START (0 * fabs(OB_GRID(0) + OB_GRID(1)))
#define OB_START_X (0 * fabs(OB_GRID(1)))
#define OB_START_Y (0 * fabs(OB_GRID(0)))
#else
#define OB_START 0
#define OB_START_X 0
#define OB_START_Y 0
#endif

#define OB_FOR_TAPS                                                   \
  for (int k = 0; k < (DIMENSIONS == 3 ? TAPS : 1); ++k) {            \
    if (z_axis.at[k] < 0 || z_axis.at[k] >= depth) continue;          \
    for (int j = 0; j < TAPS; ++j) {                                  \
      if (y_axis.at[j] < 0 || y_axis.at[j] >= height) continue;       \
      for (int i = 0; i < TAPS; ++i) {                                \
        if (x_axis.at[i] < 0 || x_axis.at[i] >= width) continue;      \
        const ob_index tap = (z_axis.at[k] * height + y_axis.at[j]) * width + x_axis.at[i];
#define OB_END_TAPS \
  }                 \
  }                 \
  }

#if !BACKWARD

__kernel void sample(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(location)
  const ob_index image = location / samples, to = image * channels * samples + location % samples;
  const ob_index size = depth * height * width;
  OB_AXES(location)
  for (ob_index c = 0; c < channels; ++c) {
    const ob_index from = (image * channels + c) * size;
    V sum = OB_START;
    OB_FOR_TAPS
      const V weight = z_axis.weight[k] * y_axis.weight[j] * x_axis.weight[i];
      sum += weight * (V)input_load(from + tap);
    OB_END_TAPS
    out_store(to + c * samples, sum);
  }
}

#else

// Sums of 16-bit dtypes are in the compute dtype.
#if OB_DTYPE_BITS == 16
#define SUM(i) sums[i]
#else
#define SUM(i) grad_input[i]
#endif

// One work-item per plane, because indices may repeat.
__kernel void differentiate_input(OB_PARAMETERS) {
  OB_BEGIN
#if HAS_grad_input
  OB_ITEM(plane)
  const ob_index size = depth * height * width, image = plane / channels;
  const ob_index to = plane * size;
  for (ob_index i = to; i < to + size; ++i) SUM(i) = 0;
  for (ob_index s = 0; s < samples; ++s) {
    OB_AXES(image * samples + s)
    const V value = grad_output_load(plane * samples + s);
    OB_FOR_TAPS
      SUM(to + tap) += z_axis.weight[k] * y_axis.weight[j] * x_axis.weight[i] * value;
    OB_END_TAPS
  }
#if OB_DTYPE_BITS == 16
  for (ob_index i = to; i < to + size; ++i) grad_input_store(i, sums[i]);
#endif
#endif
}

__kernel void differentiate_grid(OB_PARAMETERS) {
  OB_BEGIN
#if HAS_grad_grid
  OB_ITEM(location)
  const ob_index image = location / samples;
  const ob_index size = depth * height * width;
  OB_AXES(location)
  V to_x = OB_START_X, to_y = OB_START_Y, to_z = 0;
  for (ob_index c = 0; c < channels; ++c) {
    const ob_index plane = image * channels + c;
    const V gradient = grad_output_load(plane * samples + location % samples);
    OB_FOR_TAPS
      const V value = gradient * (V)input_load(plane * size + tap);
      to_x += value * z_axis.weight[k] * y_axis.weight[j] * x_axis.slope[i];
      to_y += value * z_axis.weight[k] * y_axis.slope[j] * x_axis.weight[i];
      to_z += value * z_axis.slope[k] * y_axis.weight[j] * x_axis.weight[i];
    OB_END_TAPS
  }
  grad_grid_store(location * DIMENSIONS, to_x);
  grad_grid_store(location * DIMENSIONS + 1, to_y);
  if (DIMENSIONS == 3) grad_grid_store(location * DIMENSIONS + DIMENSIONS - 1, to_z);
#endif
}

#endif
