// Mean over classes of max(0, margin - target score + score of another class)^p, times the class
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
#if REDUCTION
  losses_store(row, total);
#else
  out_store(row, total);
#endif
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
