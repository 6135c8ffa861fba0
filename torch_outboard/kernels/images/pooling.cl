// Shared by pooling kernels: images have depth, height and width; missing dimensions have size 1.

// Loop of a work-group over the positions of a plane. A CPU needs no divisions for that.
#if OB_LOCAL == 1
#define OB_FOR_LOCATIONS(z, y, x, d_size, h_size, w_size) \
  for (ob_index z = 0; z < (d_size); ++z)                 \
    for (ob_index y = 0; y < (h_size); ++y)               \
      for (ob_index x = 0; x < (w_size); ++x)
#else
#define OB_FOR_LOCATIONS(z, y, x, d_size, h_size, w_size)                                      \
  for (ob_index ob_i = OB_LANE, z, y, x; ob_i < (d_size) * (h_size) * (w_size) &&              \
                                         (x = ob_i % (w_size), y = ob_i / (w_size) % (h_size), \
                                         z = ob_i / (w_size) / (h_size), 1);                   \
       ob_i += OB_LOCAL)
#endif

// Loop of a work-group over a row of `columns` positions, and OB_CHANNELS adjacent channels from
// `first` on. Work-items of a GPU have one channel each, also of adjacent positions, so that none
// is idle if there are few channels.
#define OB_CHANNELS (OB_LOCAL == 1 ? 32 : 1)
#if OB_LOCAL == 1
#define OB_FOR_CHANNELS(x, first, columns)  \
  for (ob_index x = 0; x < (columns); ++x)  \
    for (ob_index first = 0; first < channels; first += OB_CHANNELS)
#else
#define OB_FOR_CHANNELS(x, first, columns)                                                   \
  for (ob_index ob_i = OB_LANE, x, first; ob_i < (columns) * channels &&                     \
                                          (x = ob_i / channels, first = ob_i % channels, 1); \
       ob_i += OB_LOCAL)
#endif

// Offset of channel 0 of a pixel of the work-group's image.
#define OB_PIXEL(x, row, column) \
  (image * x##_layout.stride[0] + (row) * x##_layout.stride[2] + (column) * x##_layout.stride[3])

#if OB_FLOATING
#define OB_LOWEST ((V)(-INFINITY))
#else
#define OB_LOWEST ((V)((V)(-1) < (V)0 ? (long)1 << (8 * sizeof(V) - 1) : 0))
#endif

// The windows that reach element `i` of an axis: a window reaches `reach` elements beyond its first.
#define OB_REACHING(name, i, axis, reach, outputs)                                                 \
  const ob_index name##_first =                                                                    \
      max((i + padding_##axis - (reach) + step_##axis - 1) / step_##axis, (ob_index)0);            \
  const ob_index name##_last = min((i + padding_##axis) / step_##axis + 1, outputs);

static inline ob_index first_inside(const ob_index start, const ob_index step) {
  return start < 0 ? start + (-start + step - 1) / step * step : start;
}

// Begin and end of adaptive window `o` of `outputs` in `inputs` elements. The products may need 64
// bits.
static inline ob_index window_begin(const ob_index o, const ob_index outputs,
                                    const ob_index inputs) {
  return (ob_index)((long)o * inputs / outputs);
}
static inline ob_index window_end(const ob_index o, const ob_index outputs, const ob_index inputs) {
  return (ob_index)((((long)o + 1) * inputs + outputs - 1) / outputs);
}
