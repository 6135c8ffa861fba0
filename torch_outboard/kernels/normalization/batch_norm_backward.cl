// The gradients of batch_norm.cl.

#ifdef HAS_save_var
#define INVERSE_load save_var_load
#else
#define INVERSE_load save_invstd_load
#endif

__kernel void batch_norm_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(channel) {
#define START (block * channels + channel) * n
#if TRAINING
    const V average = save_mean_load(channel), inverse = INVERSE_load(channel);
#else
    const V average = running_mean_load(channel);
    const V inverse = 1 / sqrt(running_var_load(channel) + eps);
#endif
#if TRAINING || HAS_grad_weight || HAS_grad_bias
    ROW_VALUE(total, 0)
    ROW_VALUE(product, 0)
#define SUMS(type, load, store)                                         \
  {                                                                     \
    const type dy = grad_out_##load(first + i);                         \
    total_##type += dy;                                                 \
    product_##type += dy * (input_##load(first + i) - average);         \
  }
    FOR_RUNS(START, SUMS)
    const V total = ROW_SUM(total), product = ROW_SUM(product);
#endif
    if (OB_LANE == 0) {
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
    FOR_RUNS(START, RESULT)
#endif
  }
}
