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
