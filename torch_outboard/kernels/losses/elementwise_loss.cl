// Elementwise losses, and their gradients. `divisor`: the number of elements for a mean, else 1.

// Losses of x with a target t, and their derivatives, for scalars and vectors (`type`).

#if LOSS == 0  // squared error
#define LOSS_OF(type, x, t) ((x - t) * (x - t))
#define SLOPE_OF(type, x, t) (2 * (x - t))
#elif LOSS == 1  // smooth absolute error
#define LOSS_OF(type, x, t)                                              \
  (fabs(x - t) < (type)(shape) ? (type)(0.5) * (x - t) * (x - t) / shape \
                               : fabs(x - t) - (type)(0.5) * shape)
#define SLOPE_OF(type, x, t)           \
  (x - t <= (type)(-shape) ? (type)(-1) : (x - t >= (type)(shape) ? (type)(1) : (x - t) / shape))
#elif LOSS == 2  // Huber
#define LOSS_OF(type, x, t)                                        \
  (fabs(x - t) <= (type)(shape) ? (type)(0.5) * (x - t) * (x - t)  \
                                : shape * (fabs(x - t) - (type)(0.5) * shape))
#define SLOPE_OF(type, x, t) fmax(fmin(x - t, (type)(shape)), (type)(-shape))
#else  // binary cross entropy, with logarithms of at least -100; NaN outside of [0, 1]
#define BOUNDED(type, v) ((v) < (type)(-100) ? (type)(-100) : (v))
#define LOSS_OF(type, x, t) \
  ((t - (type)(1)) * BOUNDED(type, log1p(-x)) - t * BOUNDED(type, log(x)))
#define SLOPE_OF(type, x, t) ((x - t) / fmax((1 - x) * x, (type)(1e-12)))
#endif

#if HAS_grad_output

// `single`: one gradient of the output for all elements.
__kernel void loss_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const V x = self_load(i), t = target_load(i);
  V slope = SLOPE_OF(V, x, t) * grad_output_load(single ? 0 : i) / (V)divisor;
#if HAS_weight
  slope *= weight_load(i);
#endif
  grad_store(i, slope);
}

#elif HAS_losses

// A work-group sums `part` of the `count` elements.
__kernel void loss_parts(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(g) {
    const ob_index first = g * part;
    const ob_index n = min(part, count - first);
    ROW_VALUE(total, 0)
#if HAS_weight
#define WEIGHT(load) *weight_##load(first + i)
#else
#define WEIGHT(load)
#endif
#define ADD(type, load, store)                                             \
  {                                                                        \
    const type x = self_##load(first + i), t = target_##load(first + i);   \
    total_##type += (LOSS_OF(type, x, t)) WEIGHT(load);                    \
  }
    FOR_ROW(ADD)
    const V total = ROW_SUM(total);
    if (OB_LANE == 0) losses_store(g, total);
  }
}

#else

__kernel void loss_each(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const V x = self_load(i), t = target_load(i);
  const V loss = LOSS_OF(V, x, t);
#if HAS_weight
  out_store(i, loss * weight_load(i));
#else
  out_store(i, loss);
#endif
}

#endif
