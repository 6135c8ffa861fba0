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
#if REDUCTION
  losses_store(row, total);
#else
  out_store(row, total);
#endif
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
