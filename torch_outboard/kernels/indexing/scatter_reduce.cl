// scatter with a reduction of `out` and the elements. Needs scatter.cl before it. REDUCE: 0 sum, 1
// product, 2 maximum, 3 minimum, 4 mean.

#define OB_COUNTS (REDUCE == 4 || !INCLUDE_SELF)

static inline V ob_combined(const V a, const V b) {
#if REDUCE == 1 && OB_COMPLEX
  return (V)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
#elif REDUCE == 1 && BOOLEAN
  return a & b;
#elif REDUCE == 1
  return a * b;
#elif REDUCE == 2
  return a > b || a != a ? a : b;
#elif REDUCE == 3
  return a < b || a != a ? a : b;
#elif BOOLEAN
  return a | b;
#else
  return a + b;
#endif
}

// The mean of `number` elements.
static inline V ob_mean(const V total, const int number) {
#if OB_FLOATING || OB_COMPLEX
  return total / (R)(number + INCLUDE_SELF);
#else
  const long whole = (long)total;
  const long quotient = whole / (number + INCLUDE_SELF);
  const int down = whole % (number + INCLUDE_SELF) < 0;
  return (V)(quotient - down);
#endif
}

#if !GROUPED
__kernel void scatter_reduce(OB_PARAMETERS) {
  OB_BEGIN
  OB_LINES
  for (ob_index j = 0; j < n; ++j) {
    for (ob_index k = 0; k < lines; ++k) {
      const ob_index place = OB_PLACE(j, k);
      if (place < 0) {
        OB_REPORT
        continue;
      }
      const ob_index at = in_out + k * out_next + place * out_stride;
#if OB_COUNTS
      // Without INCLUDE_SELF the first element replaces the initial value.
      const int before = count[(line + k) * size + place]++;
      const V value = OB_SOURCE(j, k);
      out_store(at, !INCLUDE_SELF && before == 0 ? value : ob_combined(out_load(at), value));
#else
      out_store(at, ob_combined(out_load(at), OB_SOURCE(j, k)));
#endif
    }
  }
#if REDUCE == 4
  for (ob_index k = 0; k < lines; ++k) {
    for (ob_index place = 0; place < size; ++place) {
      const int number = count[(line + k) * size + place];
      if (number == 0) continue;
      const ob_index at = in_out + k * out_next + place * out_stride;
      out_store(at, ob_mean(out_load(at), number));
    }
  }
#endif
}
#endif
