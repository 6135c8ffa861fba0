// Reductions of segments of `data` [outer, length, inner]. KIND: 0 sum, 1 mean, 2 maximum, 3
// minimum, 4 product. Segment k of a row has the elements from bounds[k] to bounds[k + 1] - 1.

#if HAS_lengths
// Prefix sums of the lengths.
__kernel void bounds(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(row)
  long end = 0;
  locations[row * (segments + 1)] = end;
  for (ob_index k = 0; k < segments; ++k) {
    end += lengths_load(row * segments + k);
    locations[row * (segments + 1) + k + 1] = end;
  }
}
#define BOUND(i) locations[i]
#else
__kernel void bounds(OB_PARAMETERS) {}
#define BOUND(i) (long)offsets[i]
#endif

// Work-item i computes element `column` of segment `segment` of a row. Nothing outside of the row
// is read for any bounds.
#define SEGMENT(i)                                                              \
  const ob_index column = i % inner, segment = i / inner % segments;            \
  const ob_index row = i / inner / segments;                                    \
  const ob_index entry = row * (segments + 1) + segment;                        \
  const ob_index first = (ob_index)clamp(BOUND(entry), (long)0, (long)length);   \
  const ob_index end = (ob_index)clamp(BOUND(entry + 1), (long)0, (long)length); \
  const ob_index base = row * length * inner + column;

#if BACKWARD
__kernel void reduce(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  SEGMENT(i)
  const V slope = grad_load(i), result = output_load(i);
#if KIND == 2 || KIND == 3
  // Equal elements share the gradient if it is positive, as on CPU.
  ob_index equal = 0;
  for (ob_index k = first; k < end; ++k) {
    const V x = data_load(base + k * inner);
    if (x != x || x == result) ++equal;
  }
  const V share = equal > 1 && slope > 0 ? slope / (V)equal : slope;
  for (ob_index k = first; k < end; ++k) {
    const V x = data_load(base + k * inner);
    if (x != x || x == result) out_store(base + k * inner, share);
  }
#elif KIND == 4
  for (ob_index k = first; k < end; ++k) {
    const V x = data_load(base + k * inner);
    V others = GIVEN ? (V)initial : (V)1;
    if (x == 0 || x != x) {
      for (ob_index j = first; j < end; ++j) {
        if (j != k) others *= data_load(base + j * inner);
      }
      out_store(base + k * inner, slope * others);
    } else {
      out_store(base + k * inner, slope * result / x);
    }
  }
#else
  const V share = KIND == 1 ? slope / (V)(end - first) : slope;
  for (ob_index k = first; k < end; ++k) out_store(base + k * inner, share);
#endif
}
#else
__kernel void reduce(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  SEGMENT(i)
  V total = GIVEN       ? (V)initial
            : KIND == 2 ? (V)-INFINITY
            : KIND == 3 ? (V)INFINITY
            : KIND == 4 ? (V)1
                        : (V)0;
  for (ob_index k = first; k < end; ++k) {
    const V x = data_load(base + k * inner);
#if KIND == 2
    total = x > total || x != x ? x : total;
#elif KIND == 3
    total = x < total || x != x ? x : total;
#elif KIND == 4
    total *= x;
#else
    total += x;
#endif
  }
  if (KIND == 1 && end > first) total /= (V)(end - first);
  if (KIND == 1 && end <= first && !GIVEN) total = (V)NAN;
  out_store(i, total);
}
#endif
