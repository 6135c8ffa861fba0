// The gradient of embedding and of the sums and means of embedding_bag: rows of `gradient` are
// added to the rows at `indices`, in order. Each of `ranges` work-groups adds to rows whose low
// bits equal its number, so that no two write to one row. Needs rows.cl and indices_in_order.cl
// before it.

#define INDEX(k) \
  (indices_load(k) == padding ? -1 : ob_checked_index(indices_load(k), row_count))
#if BAG
#define GRADIENT(load, k) grad_##load(source[k] * n + i)
#else
#define GRADIENT(load, k) grad_output_##load(source[k] * n + i)
#endif

// Rows of the gradient are loaded before the first addition, which would wait for its loads.
#define ROWS (OB_LOCAL == 1 ? 1 : 4)
#define ADD(type, load, store)                                                             \
  {                                                                                        \
    type gradient[ROWS];                                                                   \
    OB_UNROLL for (int k = 0; k < ROWS; ++k) {                                             \
      if (location[k] >= 0) gradient[k] = GRADIENT(load, k) * scale[k];                    \
    }                                                                                      \
    OB_UNROLL for (int k = 0; k < ROWS; ++k) {                                             \
      if (location[k] < 0) continue;                                                       \
      out_##store(location[k] * n + i, out_##load(location[k] * n + i) + gradient[k]);     \
    }                                                                                      \
  }

__kernel void embedding_backward(OB_PARAMETERS) {
  OB_BEGIN
  INDICES_SCRATCH
  INDEX_TEAMS(n, W)
  OB_FOR_GROUPS(range) {
#if BY_FREQUENCY
#define COUNTED(k) ob_checked_index(indices_load(k), row_count)
    for (ob_index begin = 0; begin < index_count; begin += INDICES_AT_ONCE) {
      FIND_INDICES(begin, index_count, COUNTED, range, ranges)
      for (int t = OB_LANE; t < found; t += OB_LOCAL) atomic_inc(counts + found_index[t]);
    }
    OB_BARRIER
#endif
    for (ob_index begin = 0; begin < index_count; begin += INDICES_AT_ONCE) {
      FIND_INDICES(begin, index_count, INDEX, range, ranges)
      for (int t = 0; t < found; t += ROWS) {
        ob_index location[ROWS], source[ROWS];
        V scale[ROWS];
        OB_UNROLL for (int k = 0; k < ROWS; ++k) {
          location[k] = t + k < found ? found_index[t + k] : -1;
          scale[k] = 1;
          source[k] = 0;
          if (location[k] < 0 || !OF_MY_TEAM(location[k], ranges)) {
            location[k] = -1;
            continue;
          }
          source[k] = found_at[t + k];
#if BY_FREQUENCY
          // Volatile: counts of other work-groups must not come from a cache.
          scale[k] /= (V)((volatile __global int *)counts)[location[k]];
#endif
#if BAG
          IF_per_sample_weights(scale[k] *= per_sample_weights_load(source[k]);)
          source[k] = ob_checked_index(offset2bag_load(source[k]), bags);
          if (source[k] < 0) {
            location[k] = -1;
            continue;
          }
#if MODE == 1
          scale[k] /= (V)max((long)bag_size_load(source[k]), (long)1);
#endif
#endif
        }
        for (ob_index i = team_lane * W; i + W <= n; i += team_lanes * W) {
          ADD(T, load_vector, store_vector)
        }
        for (ob_index i = n / W * W + team_lane; i < n; i += team_lanes) ADD(V, load, store)
      }
    }
  }
}
