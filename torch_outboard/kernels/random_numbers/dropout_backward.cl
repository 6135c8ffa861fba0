__kernel void dropout_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  out_store(i, mask_load(i) != 0 ? grad_output_load(i) * factor : grad_output_load(i) * 0);
}
