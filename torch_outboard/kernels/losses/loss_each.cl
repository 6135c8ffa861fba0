// The loss of every element.

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
