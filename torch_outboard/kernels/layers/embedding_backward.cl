// The gradient of embedding and of the sums and means of embedding_bag: rows of `gradient` added to
// the rows that `indices` names, in their order. Of `ranges` groups each adds to the rows whose
// numbers agree with its own in the last bits, so that no two write the same.

__kernel void embedding_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(range) {
#if BY_FREQUENCY
    if (OB_LANE == 0) {
      for (ob_index k = 0; k < index_count; ++k) {
        const ob_index place = ob_checked_index(indices_load(k), row_count);
        if ((place & (ranges - 1)) == range && place >= 0) {
          counts_store(place, counts_load(place) + 1);
        }
      }
    }
    OB_BARRIER
#endif
    for (ob_index k = 0; k < index_count; ++k) {
      const ob_index place = ob_checked_index(indices_load(k), row_count);
      if ((place & (ranges - 1)) != range || place == padding || place < 0) continue;
      V scale = 1;
#if BY_FREQUENCY
      scale /= (V)counts_load(place);
#endif
#if BAG
      const ob_index source = ob_checked_index(offset2bag_load(k), bags);
      if (source < 0) continue;
#if HAS_per_sample_weights
      scale *= per_sample_weights_load(k);
#endif
#if MODE == 1
      scale /= (V)max((long)bag_size_load(source), (long)1);
#endif
#define GRADIENT(load) grad_##load(source * n + i)
#else
#define GRADIENT(load) grad_output_##load(k * n + i)
#endif
#define ADD(type, load, store)                                                       \
  out_##store(place * n + i, out_##load(place * n + i) + GRADIENT(load) * scale);
      FOR_ROW(ADD)
    }
  }
}
