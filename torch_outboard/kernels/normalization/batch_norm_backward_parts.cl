// batch_norm_backward.cl with work-groups for parts of channels, as in batch_norm_parts.cl.

#ifdef HAS_save_var
#define INVERSE_load save_var_load
#else
#define INVERSE_load save_invstd_load
#endif
#if TRAINING
#define STATISTICS \
  const V average = save_mean_load(channel), inverse = INVERSE_load(channel);
#else
#define STATISTICS                                \
  const V average = running_mean_load(channel);   \
  const V inverse = 1 / sqrt(running_var_load(channel) + eps);
#endif
#define START (block * channels + channel) * n

__kernel void batch_norm_backward_parts(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(group) {
    const ob_index channel = group / parts, part = group % parts;
    STATISTICS
    ROW_VALUE(total, 0)
    ROW_VALUE(product, 0)
#define SUMS(type, load, store)                                         \
  {                                                                     \
    const type dy = grad_out_##load(first + i);                         \
    total_##type += dy;                                                 \
    product_##type += dy * (input_##load(first + i) - average);         \
  }
    FOR_PART(BEGIN_OF_PART, END_OF_PART, START, SUMS)
    const V total = ROW_SUM(total), product = ROW_SUM(product);
    if (OB_LANE == 0) {
      totals_store(group, total);
      products_store(group, product);
    }
  }
}

__kernel void batch_norm_backward_results(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(group) {
    const ob_index channel = group / parts, part = group % parts;
    STATISTICS
    V total = 0, product = 0;
    for (ob_index k = OB_LANE; k < parts; k += OB_LOCAL) {
      total += totals_load(channel * parts + k);
      product += products_load(channel * parts + k);
    }
    total = OB_GROUP_SUM(total);
    product = OB_GROUP_SUM(product);
    if (part == 0 && OB_LANE == 0) {
#if HAS_grad_weight
      grad_weight_store(channel, product * inverse);
#endif
#if HAS_grad_bias
      grad_bias_store(channel, total);
#endif
    }
#if HAS_grad_input
    V scale = inverse;
#if HAS_weight
    scale *= weight_load(channel);
#endif
#if TRAINING
    const V count = (V)blocks * (V)n;
    const V shift = total / count, slope = product * inverse * inverse / count;
#define RESULT(type, load, store)                                                           \
  grad_input_##store(                                                                       \
      first + i,                                                                            \
      (grad_out_##load(first + i) - shift - (input_##load(first + i) - average) * slope) * scale);
#else
#define RESULT(type, load, store) \
  grad_input_##store(first + i, grad_out_##load(first + i) * scale);
#endif
    FOR_PART(BEGIN_OF_PART, END_OF_PART, START, RESULT)
#endif
  }
}
