// Softmax, its logarithm, and their gradients. ROWS: of adjacent elements. Needs rows.cl before it.

// exp_value(V) and exp_vector(T): exp within 2 ulp. CPU compilers' exp() of float vectors takes
// several times as long. Subnormal results become 0.

#if OB_GPU || defined(OB_DOUBLE)
#define exp_value(x) exp(x)
#define exp_vector(x) ob_exp(x)
#else
#define DEFINE_EXP(name, type, bits)                                        \
  static inline type name(const type x) {                                   \
    /* Adding 1.5 * 2^23 rounds to an integer, which its low bits then hold. */ \
    const type shifted = x * (type)(1.44269504f) + (type)(12582912.0f);     \
    const type n = shifted - (type)(12582912.0f);                           \
    const type r = (x - n * (type)(0.693359375f)) + n * (type)(2.12194440e-4f); \
    type p = (type)(1.9875691500e-4f);                                      \
    p = p * r + (type)(1.3981999507e-3f);                                   \
    p = p * r + (type)(8.3334519073e-3f);                                   \
    p = p * r + (type)(4.1665795894e-2f);                                   \
    p = p * r + (type)(1.6666665459e-1f);                                   \
    p = p * r + (type)(5.0000001201e-1f);                                   \
    p = p * (r * r) + r + (type)(1.0f);                                     \
    const bits power = (__builtin_astype(shifted, bits) << 23) + (bits)(0x3f800000); \
    const type y = p * __builtin_astype(power, type);                       \
    return x < (type)(-87.33f) ? (type)(0.0f)                               \
                               : (x > (type)(88.37f) ? (type)(INFINITY) : y); \
  }
DEFINE_EXP(exp_value, V, int)
#if W > 1
DEFINE_EXP(exp_vector, T, M)
#else
#define exp_vector(x) exp_value(x)
#endif
#endif

#if ROWS

// Softmax of rows, and its gradient: a work-group per row of n values. LOG:
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

#else

// Softmax over a dimension of n values with stride `inner`, and its gradient. A work-item computes
// COLUMNS adjacent columns. LOG: log-softmax.

#define COLUMNS 8

#if FORWARD
#if LOG
#define RESULT(x, exp) (x - largest - log(total))
#else
#define RESULT(x, exp) (exp(x - largest) / total)
#endif
#define COLUMN(type, load, store, exp)                                      \
  {                                                                         \
    type largest = (type)(-INFINITY), total = (type)(0);                    \
    for (ob_index i = 0; i < n; ++i) largest = fmax(largest, self_##load(at + i * inner)); \
    for (ob_index i = 0; i < n; ++i) total += exp(self_##load(at + i * inner) - largest);  \
    for (ob_index i = 0; i < n; ++i) {                                      \
      const type x = self_##load(at + i * inner);                           \
      out_##store(at + i * inner, RESULT(x, exp));                          \
    }                                                                       \
  }
#else
#if LOG
#define PART(dy, y) (dy)
#define RESULT(dy, y, exp) (dy - total * exp(y))
#else
#define PART(dy, y) (dy * y)
#define RESULT(dy, y, exp) ((dy - total) * y)
#endif
#define COLUMN(type, load, store, exp)                                              \
  {                                                                                 \
    type total = (type)(0);                                                         \
    for (ob_index i = 0; i < n; ++i) {                                              \
      total += PART(grad_output_##load(at + i * inner), output_##load(at + i * inner)); \
    }                                                                               \
    for (ob_index i = 0; i < n; ++i) {                                              \
      const type dy = grad_output_##load(at + i * inner);                         \
      const type y = output_##load(at + i * inner);                                 \
      grad_##store(at + i * inner, RESULT(dy, y, exp));                           \
    }                                                                               \
  }
#endif

__kernel void softmax(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index blocks = (inner + COLUMNS - 1) / COLUMNS;
  const ob_index outer = item / blocks;
  const ob_index start = outer * n * inner;
  ob_index column = (item - outer * blocks) * COLUMNS;
  const ob_index end = min(column + COLUMNS, inner);
  for (; column + W <= end; column += W) {
    const ob_index at = start + column;
    COLUMN(T, load_vector, store_vector, exp_vector)
  }
#if W > 1
  for (; column < end; ++column) {
    const ob_index at = start + column;
    COLUMN(V, load, store, exp_value)
  }
#endif
}

#endif
