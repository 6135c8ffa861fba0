// The gradient of a loss. `divisor`: the number of elements for a mean, else 1; `single`: one
// gradient of the output for all elements.

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
