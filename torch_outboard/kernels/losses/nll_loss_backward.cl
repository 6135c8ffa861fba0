// The gradient of nll_loss.cl.

__kernel void nll_loss_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index outer = i / (classes * inner);
  const ob_index class = i / inner - outer * classes;
  const ob_index place = outer * inner + i % inner;
  V slope = 0;
  const long t = target_load(place);
  if (class == 0 && t != ignore && (t < 0 || t >= classes)) { OB_REPORT }
  if (t == class && class != ignore) {
    slope = -grad_output_load(REDUCTION ? 0 : place);
#if REDUCTION == 1
    slope /= total_weight_load(0);
#endif
#if HAS_weight
    slope *= weight_load(class);
#endif
  }
  grad_store(i, slope);
}
