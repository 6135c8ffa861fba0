// Embeddings: rows of a weight at indices, and with NORM the renormalization of such rows.

#ifdef NORM

// Scales rows at `indices` with a norm above `limit` down to it.

// Of equal indices one processes the row.
__kernel void embedding_renorm_choose(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(k)
  const ob_index location = ob_checked_index(indices_load(k), row_count);
  if (location >= 0) {
    chosen_store(location, k);
  } else {
    OB_REPORT
  }
}

#if NORM == 0
#define POWER(x) fmax(total, fabs(x))
#elif NORM == 1
#define POWER(x) total + fabs(x)
#elif NORM == 2
#define POWER(x) total + (x) * (x)
#else
#define POWER(x) total + pow(fabs(x), order)
#endif

__kernel void embedding_renorm(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(k) {
    const ob_index location = ob_checked_index(indices_load(k), row_count);
    // All work-groups execute the same barriers, with or without a row.
    const bool takes = location >= 0 && chosen_load(location) == k;
    V total = 0;
    if (takes) {
      for (ob_index i = OB_LANE; i < n; i += OB_LOCAL) total = POWER(out_load(location * n + i));
    }
#if NORM == 0
    const V norm = OB_GROUP_MAX(total);
#elif NORM == 1
    const V norm = OB_GROUP_SUM(total);
#elif NORM == 2
    const V norm = sqrt(OB_GROUP_SUM(total));
#else
    const V norm = pow(OB_GROUP_SUM(total), 1 / order);
#endif
    if (takes && norm > limit) {
      const V scale = limit / (norm + (V)1e-7);
      for (ob_index i = OB_LANE; i < n; i += OB_LOCAL) {
        out_store(location * n + i, out_load(location * n + i) * scale);
      }
    }
  }
}

#else

// Rows of `weight` at `indices`; 0 for an index out of range.

__kernel void embedding(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(row) {
    const ob_index location = ob_checked_index(indices_load(row), row_count);
    const bool known = location >= 0;
    if (!known) { OB_REPORT }
#define WEIGHT(i) (known ? weight_load(location * n + (i)) : 0)
#define OUT(i, v) out_store((row * n + (i)), v)
    OB_MOVE_ROW(V, n, WEIGHT, OUT)
  }
}

#endif
