// Sums (MODE 0), means (1) and maxima (2) of bags of rows of `weight`. One work-group per bag.
// Index `padding` does not count. Indices out of range are skipped. Needs rows.cl before it.

__kernel void embedding_bag(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(bag) {
    const long start = offsets_load(bag);
    const long next = bag + 1 < offset_count ? (long)offsets_load(bag + 1) : (long)index_count;
    const ob_index first = (ob_index)clamp(start, (long)0, (long)index_count);
    const ob_index last = (ob_index)clamp(next, (long)first, (long)index_count);
    ob_index size = 0;
    for (ob_index k = first; k < last; ++k) size += indices_load(k) != padding;
    if (OB_LANE == 0) {
      bag_size_store(bag, size);
      for (ob_index k = first; k < last; ++k) {
        if (ob_checked_index(indices_load(k), row_count) < 0) { OB_REPORT }
      }
      // PyTorch checks no more than this.
      if (bag == 0 && start != 0 || start > index_count || next > index_count) { OB_REPORT }
    }
    for (ob_index k = first + OB_LANE; k < last; k += OB_LOCAL) offset2bag_store(k, bag);
#define KNOWN const ob_index location = ob_checked_index(indices_load(k), row_count); \
    if (location == padding || location < 0) continue;
#if MODE == 2
    for (ob_index i = OB_LANE; i < n; i += OB_LOCAL) {
      V best = 0;
      ob_index at = 0;
      bool some = false;
      for (ob_index k = first; k < last; ++k) {
        KNOWN
        const V x = weight_load(location * n + i);
        if (!some || x > best) {
          best = x;
          at = location;
        }
        some = true;
      }
      out_store(bag * n + i, best);
      maximum_store(bag * n + i, at);
    }
#else
    if (OB_LANE == 0) maximum_store(bag, size);
#if MODE == 1
    const V scale = size > 0 ? 1 / (V)size : 0;
#else
    const V scale = 1;
#endif
#define BAG_OF(type, load, store)                                         \
  {                                                                       \
    type total = (type)(0);                                               \
    for (ob_index k = first; k < last; ++k) {                             \
      KNOWN                                                               \
      total += weight_##load(location * n + i)                            \
               IF_per_sample_weights(* per_sample_weights_load(k));       \
    }                                                                     \
    out_##store(bag * n + i, total * scale);                              \
  }
    FOR_ROW(BAG_OF)
#endif
  }
}
