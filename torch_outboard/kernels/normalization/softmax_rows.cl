// Softmax over the last dimension, and its gradient: a work-group per row of n values. LOG:
// log-softmax.

#define exp_T1 exp_vector
#define exp_T2 exp_vector
#define exp_T3 exp_vector
#define exp_T4 exp_vector
#define exp_V exp_value

// 16-bit results are rounded once, at the end, so later passes cannot read stored values. A GPU
// computes exponentials twice, while it waits for memory.
#define KEEPS_EXPONENTIALS (OB_DTYPE_BITS >= 32 && !LOG && !OB_GPU)

#if FORWARD
#if HELD
// GPU: a work-item has its HELD elements of a row in registers; the row is read once. Padding is
// the identity.
#define FOR_HELD(k) OB_UNROLL for (int k = 0; k < HELD / W; ++k)
#define HELD_AT(k) ((OB_LANE + (k) * OB_LOCAL) * W)

__kernel void softmax(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(row) {
    const ob_index first = row * n;
    T held[HELD / W];
    FOR_HELD(k) {
      held[k] = C(-INFINITY);
      if (HELD_AT(k) < n) held[k] = self_load_vector(first + HELD_AT(k));
    }
    // NaN is no maximum here, but makes the sum NaN.
    T most = C(-INFINITY), sum = C(0);
    FOR_HELD(k) most = held[k] > most ? held[k] : most;
    const V largest = OB_GROUP_MAX(row_max(most));
    FOR_HELD(k) sum += exp_vector(held[k] - largest);
    const V total = OB_GROUP_SUM(row_sum(sum));
#if LOG
    const V shift = log(total);
#define RESULT(x) x - largest - shift
#else
    const V scale = 1 / total;
#define RESULT(x) exp_vector(x - largest) * scale
#endif
    FOR_HELD(k) {
      if (HELD_AT(k) < n) out_store_vector((first + HELD_AT(k)), RESULT(held[k]));
    }
  }
}
#else
__kernel void softmax(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(row) {
    const ob_index first = row * n;
    ROW_VALUE(most, -INFINITY)
// NaN is no maximum here, but makes the sum NaN.
#define MOST(type, load, store)                          \
  {                                                      \
    const type x = self_##load(first + i);               \
    most_##type = x > most_##type ? x : most_##type;     \
  }
    FOR_ROW(MOST)
    const V largest = ROW_MAX(most);
    ROW_VALUE(total, 0)
#if KEEPS_EXPONENTIALS
#define TOTAL(type, load, store)                                  \
  {                                                               \
    const type e = exp_##type(self_##load(first + i) - largest);  \
    total_##type += e;                                            \
    out_##store(first + i, e);                                    \
  }
#else
#define TOTAL(type, load, store) total_##type += exp_##type(self_##load(first + i) - largest);
#endif
    FOR_ROW(TOTAL)
    const V total = ROW_SUM(total);
#if LOG
    const V shift = log(total);
#define RESULT(type, load, store) \
  out_##store(first + i, self_##load(first + i) - largest - shift);
#else
    const V scale = 1 / total;
#if KEEPS_EXPONENTIALS
#define RESULT(type, load, store) out_##store(first + i, out_##load(first + i) * scale);
#else
#define RESULT(type, load, store) \
  out_##store(first + i, exp_##type(self_##load(first + i) - largest) * scale);
#endif
#endif
    FOR_ROW(RESULT)
  }
}

#endif
#else
// Gradient of softmax: (grad - sum(grad * output)) * output; of log-softmax: grad - sum(grad) *
// exp(output).
#if LOG
#define PART(load) grad_output_##load(first + i)
#define SLOPE(type, load) grad_output_##load(first + i) - total * exp_##type(output_##load(first + i))
#else
#define PART(load) grad_output_##load(first + i) * output_##load(first + i)
#define SLOPE(type, load) (grad_output_##load(first + i) - total) * output_##load(first + i)
#endif
__kernel void softmax(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(row) {
    const ob_index first = row * n;
    ROW_VALUE(total, 0)
#define TOTAL(type, load, store) total_##type += PART(load);
    FOR_ROW(TOTAL)
    const V total = ROW_SUM(total);
#define RESULT(type, load, store) grad_##store(first + i, SLOPE(type, load));
    FOR_ROW(RESULT)
  }
}
#endif
