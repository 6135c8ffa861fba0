// The gradient of the weights of the samples of bags: products of rows of `grad` and `weight`.

__kernel void embedding_bag_weights_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(k) {
    const ob_index place = ob_checked_index(indices_load(k), row_count);
    const ob_index bag = ob_checked_index(offset2bag_load(k), bags);
    const bool known = place != padding && place >= 0 && bag >= 0;
    const ob_index from = known ? place * n : 0, gradient = known ? bag * n : 0;
    ROW_VALUE(total, 0)
#define ADD(type, load, store) \
  total_##type += grad_##load(gradient + i) * weight_##load(from + i);
    FOR_ROW(ADD)
    const V total = ROW_SUM(total);
    if (OB_LANE == 0) out_store(k, known ? total : 0);
  }
}
