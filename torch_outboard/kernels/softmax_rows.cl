// Softmax over the last dimension, and its gradient: a group per row of n values.
// LOG: the logarithm of it.

// Half types are rounded once, at the end: what a pass stores cannot be read by the next one.
#define KEEPS_EXPONENTIALS (OB_DTYPE_BITS >= 32 && !LOG)

#if FORWARD
__kernel void softmax(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(row) {
    const ob_index first = row * n;
    const ob_index whole = n / W * W;
    T largest_of = C(-INFINITY);
    V largest = -INFINITY;
    for (ob_index i = OB_LANE * W; i < whole; i += OB_LOCAL * W) {
      largest_of = fmax(largest_of, self_load_vector(first + i));
    }
    for (ob_index i = whole + OB_LANE; i < n; i += OB_LOCAL) {
      largest = fmax(largest, self_load(first + i));
    }
    largest = OB_GROUP_MAX(fmax(largest, OB_MAX(largest_of)));
    T total_of = C(0);
    V total = 0;
    for (ob_index i = OB_LANE * W; i < whole; i += OB_LOCAL * W) {
      const T e = exp_vector(self_load_vector(first + i) - largest);
      total_of += e;
#if KEEPS_EXPONENTIALS
      out_store_vector(first + i, e);
#endif
    }
    for (ob_index i = whole + OB_LANE; i < n; i += OB_LOCAL) {
      const V e = exp_value(self_load(first + i) - largest);
      total += e;
#if KEEPS_EXPONENTIALS
      out_store(first + i, e);
#endif
    }
    total = OB_GROUP_SUM(total + OB_SUM(total_of));
#if LOG
    const V shift = log(total);
#define RESULT(x, exp) (x - largest - shift)
#elif KEEPS_EXPONENTIALS
    const V scale = 1 / total;
#else
    const V scale = 1 / total;
#define RESULT(x, exp) (exp(x - largest) * scale)
#endif
    for (ob_index i = OB_LANE * W; i < whole; i += OB_LOCAL * W) {
#if KEEPS_EXPONENTIALS
      out_store_vector(first + i, out_load_vector(first + i) * scale);
#else
      const T x = self_load_vector(first + i);
      out_store_vector(first + i, RESULT(x, exp_vector));
#endif
    }
    for (ob_index i = whole + OB_LANE; i < n; i += OB_LOCAL) {
#if KEEPS_EXPONENTIALS
      out_store(first + i, out_load(first + i) * scale);
#else
      const V x = self_load(first + i);
      out_store(first + i, RESULT(x, exp_value));
#endif
    }
  }
}

#else
// The gradient: of softmax (grad - sum(grad * output)) * output, of its logarithm
// grad - sum(grad) * exp(output).
#if LOG
#define PART(dy, y) (dy)
#define RESULT(dy, y, exp) (dy - total * exp(y))
#else
#define PART(dy, y) (dy * y)
#define RESULT(dy, y, exp) ((dy - total) * y)
#endif
__kernel void softmax(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(row) {
    const ob_index first = row * n;
    const ob_index whole = n / W * W;
    T total_of = C(0);
    V total = 0;
    for (ob_index i = OB_LANE * W; i < whole; i += OB_LOCAL * W) {
      total_of += PART(grad_output_load_vector(first + i), output_load_vector(first + i));
    }
    for (ob_index i = whole + OB_LANE; i < n; i += OB_LOCAL) {
      total += PART(grad_output_load(first + i), output_load(first + i));
    }
    total = OB_GROUP_SUM(total + OB_SUM(total_of));
    for (ob_index i = OB_LANE * W; i < whole; i += OB_LOCAL * W) {
      const T dy = grad_output_load_vector(first + i), y = output_load_vector(first + i);
      grad_store_vector(first + i, RESULT(dy, y, exp_vector));
    }
    for (ob_index i = whole + OB_LANE; i < n; i += OB_LOCAL) {
      const V dy = grad_output_load(first + i), y = output_load(first + i);
      grad_store(first + i, RESULT(dy, y, exp_value));
    }
  }
}
#endif
