// The gradient of nll_loss.cl, of (batch, classes, inner).

#if REDUCTION == 1
#define SHARE / total_weight_load(0)
#else
#define SHARE
#endif
#if HAS_weight
#define WEIGHT(class) * weight_load(class)
#else
#define WEIGHT(class)
#endif
#define SLOPE(class, place) (-grad_output_load(REDUCTION ? 0 : place) SHARE WEIGHT(class))
#define IS_WRONG(t) ((t) != ignore && ((t) < 0 || (t) >= classes))

__kernel void nll_loss_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
#if OB_LOCAL == 1
  // CPU: one division per row, either all classes of a position or all positions of a class.
  if (inner == 1) {
    const long t = target_load(i);
    if (IS_WRONG(t)) { OB_REPORT }
    for (ob_index class = 0; class < classes; ++class) grad_store(i * classes + class, (V)(0));
    if (t != ignore && t >= 0 && t < classes) grad_store(i * classes + t, SLOPE(t, i));
    return;
  }
  const ob_index class = i % classes, first = i / classes * inner;
  for (ob_index k = 0; k < inner; ++k) {
    const long t = target_load(first + k);
    if (class == 0 && IS_WRONG(t)) { OB_REPORT }
    grad_store(i * inner + k, t == class && class != ignore ? SLOPE(class, first + k) : (V)0);
  }
#else
  const ob_index outer = i / (classes * inner);
  const ob_index class = i / inner - outer * classes;
  const ob_index place = outer * inner + i % inner;
  const long t = target_load(place);
  if (class == 0 && IS_WRONG(t)) { OB_REPORT }
  grad_store(i, t == class && class != ignore ? SLOPE(class, place) : (V)0);
#endif
}
