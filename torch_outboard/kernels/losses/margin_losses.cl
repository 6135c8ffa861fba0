// Margin losses of rows of `classes` scores, and their gradients.

#if REDUCTION
#define STORE_LOSS(row, total) losses_store(row, total)
#else
#define STORE_LOSS(row, total) out_store(row, total)
#endif

#ifdef P

// Mean over classes of max(0, margin - target score + score of another class)^P, times the class
// weight. NaN for a target that is no class.

#define POWER(z) (P == 1 ? (z) : (z) * (z))

#if FORWARD
__kernel void multi_margin_loss(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(row)
  const ob_index t = ob_checked_index(target_load(row), classes);
  V total = 0;
  if (t < 0) {
    total = NAN;
    OB_REPORT
  } else {
    const V own = self_load(row * classes + t);
    for (ob_index i = 0; i < classes; ++i) {
      const V z = distance - own + self_load(row * classes + i);
      if (i != t && z > 0) total += POWER(z);
    }
#if HAS_weight
    total *= weight_load(t);
#endif
  }
  total /= (V)classes;
  STORE_LOSS(row, total);
}
#else
__kernel void multi_margin_loss(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(row)
  const ob_index t = ob_checked_index(target_load(row), classes);
  const bool known = t >= 0;
  if (!known) { OB_REPORT }
  V scale = grad_output_load(REDUCTION ? 0 : row) / ((V)classes * (V)divisor);
#if HAS_weight
  scale *= weight_load(known ? t : 0);
#endif
  const V own = self_load(row * classes + (known ? t : 0));
  V total = 0;
  for (ob_index i = 0; i < classes; ++i) {
    const V z = distance - own + self_load(row * classes + i);
    const V slope = z > 0 && i != t ? (P == 1 ? scale : 2 * scale * z) : 0;
    total += slope;
    grad_store(row * classes + i, known ? slope : (V)NAN);
  }
  if (known) grad_store(row * classes + t, -total);
}
#endif

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
