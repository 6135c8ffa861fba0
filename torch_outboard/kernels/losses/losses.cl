#if HAS_losses
// The sum of `losses`, divided by `divisor`.

__kernel void loss_total(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(g) {
    V total = 0;
    for (ob_index i = OB_LANE; i < loss_count; i += OB_LOCAL) total += losses_load(i);
    total = OB_GROUP_SUM(total);
    if (OB_LANE == 0) out_store(0, total / (V)divisor);
  }
}
#endif

#ifdef LOSS

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

#else

// Margin losses of rows of `classes` scores, and their gradients.

#if REDUCTION
#define STORE_LOSS(row, total) losses_store(row, total)
#else
#define STORE_LOSS(row, total) out_store(row, total)
#endif

#ifdef P

// Mean over classes of max(0, margin - target score + score of another class)^P, times the class
// weight. NaN for a target that is no class.

__kernel void multi_margin_loss(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(row)
  const ob_index t = ob_checked_index(target_load(row), classes), at = max(t, (ob_index)0);
  if (t < 0) { OB_REPORT }
#if FORWARD
  V scale = 1 / (V)classes;
#else
  V scale = grad_output_load(REDUCTION ? 0 : row) / ((V)classes * (V)divisor);
#endif
  IF_weight(scale *= weight_load(at);)
  const V own = self_load(row * classes + at);
  V total = 0;
  for (ob_index i = 0; i < classes; ++i) {
    const V z = distance - own + self_load(row * classes + i);
    const bool counts = z > 0 && i != t;
#if FORWARD
    if (counts) total += P == 1 ? z : z * z;
#else
    const V slope = counts ? (P == 1 ? scale : 2 * scale * z) : 0;
    total += slope;
    grad_store(row * classes + i, t < 0 ? (V)NAN : slope);
#endif
  }
#if FORWARD
  total = t < 0 ? (V)NAN : total * scale;
  STORE_LOSS(row, total);
#else
  if (t >= 0) grad_store(row * classes + t, -total);
#endif
}

#else

// Sum over targets and other classes of max(0, 1 - target score + other score), divided by the
// number of classes. A row of targets ends with -1.

#if FORWARD
__kernel void multilabel_margin_loss(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(row)
  const ob_index first = row * classes;
  for (ob_index i = 0; i < classes; ++i) {
    // Targets after the end are checked, too.
    if (target_load(first + i) < -1 || target_load(first + i) >= classes) { OB_REPORT }
    bool found = false;
    for (ob_index k = 0; k < classes && target_load(first + k) >= 0; ++k) {
      found = found || target_load(first + k) == i;
    }
    is_target_of_store(first + i, found ? 1 : 0);
  }
  V total = 0;
  for (ob_index k = 0; k < classes && target_load(first + k) >= 0; ++k) {
    const ob_index t = ob_checked_index(target_load(first + k), classes);
    if (t < 0) {
      total = NAN;
      break;
    }
    for (ob_index i = 0; i < classes; ++i) {
      const V z = 1 - self_load(first + t) + self_load(first + i);
      if (is_target_of_load(first + i) == 0 && z > 0) total += z;
    }
  }
  total /= (V)classes;
  STORE_LOSS(row, total);
}
#else
__kernel void multilabel_margin_loss(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(row)
  const ob_index first = row * classes;
  const V scale = grad_output_load(REDUCTION ? 0 : row) / ((V)classes * (V)divisor);
  for (ob_index i = 0; i < classes; ++i) {
    V total = 0;
    for (ob_index k = 0; k < classes && target_load(first + k) >= 0; ++k) {
      const ob_index t = ob_checked_index(target_load(first + k), classes);
      if (t < 0) break;
      if (is_target_load(first + i) == 0) {
        total += 1 - self_load(first + t) + self_load(first + i) > 0 ? scale : 0;
      } else if (t == i) {
        for (ob_index other = 0; other < classes; ++other) {
          const V z = 1 - self_load(first + t) + self_load(first + other);
          if (is_target_load(first + other) == 0 && z > 0) total -= scale;
        }
      }
    }
    grad_store(first + i, total);
  }
}
#endif

#endif

#endif
