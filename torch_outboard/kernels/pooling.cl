// What pooling kernels share: an image has a depth, a height and a width; those of fewer dimensions
// have sizes of one.

// The coordinates of element i of (plane, depth, height, width).
#define OB_SPLIT(i, d_size, h_size, w_size)                   \
  const ob_index x = (i) % (w_size);                          \
  const ob_index y = (i) / (w_size) % (h_size);               \
  const ob_index z = (i) / (w_size) / (h_size) % (d_size);    \
  const ob_index plane = (i) / (w_size) / (h_size) / (d_size);

#if OB_FLOATING
#define OB_LOWEST ((V)(-INFINITY))
#else
#define OB_LOWEST ((V)((V)(-1) < (V)0 ? (long)1 << (8 * sizeof(V) - 1) : 0))
#endif

static inline ob_index first_inside(const ob_index start, const ob_index step) {
  return start < 0 ? start + (-start + step - 1) / step * step : start;
}

// Where adaptive window `o` of `outputs` begins and ends in `inputs` elements. The products need 64
// bits only where the index does.
static inline ob_index window_begin(const ob_index o, const ob_index outputs,
                                    const ob_index inputs) {
  return (ob_index)((long)o * inputs / outputs);
}
static inline ob_index window_end(const ob_index o, const ob_index outputs, const ob_index inputs) {
  return (ob_index)((((long)o + 1) * inputs + outputs - 1) / outputs);
}
