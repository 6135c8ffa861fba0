// Batch normalization with statistics of the batch (TRAINING) or given ones. A work-group computes
// a channel of (blocks, channels, n).

__kernel void batch_norm(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(channel) {
#define START (block * channels + channel) * n
#if TRAINING
    ROW_VALUE(total, 0)
#define TOTAL(type, load, store) total_##type += input_##load(first + i);
    FOR_RUNS(START, TOTAL)
    const V count = (V)blocks * (V)n;
    V average = ROW_SUM(total) / count;
    ROW_VALUE(squares, 0)
#define SQUARES(type, load, store)                       \
  {                                                      \
    const type d = input_##load(first + i) - average;    \
    squares_##type += d * d;                             \
  }
    FOR_RUNS(START, SQUARES)
    V variation = ROW_SUM(squares);
#if ROUNDED
    // CPU continues with both rounded to the dtype of the statistics.
    if (OB_LANE == 0) {
      mean_store(channel, average);
      rstd_store(channel, variation);
    }
    OB_BARRIER
    average = mean_load(channel);
    variation = rstd_load(channel);
    OB_BARRIER
#endif
    if (OB_LANE == 0) {
      mean_store(channel, average);
      rstd_store(channel, 1 / sqrt(variation / count + eps));
#if HAS_running_mean
      running_mean_store(channel, momentum * average + (1 - momentum) * running_mean_load(channel));
#endif
#if HAS_running_var
      running_var_store(channel, momentum * (variation / (count - 1)) +
                                     (1 - momentum) * running_var_load(channel));
#endif
    }
    OB_BARRIER
    average = mean_load(channel);
    const V inverse = rstd_load(channel);
#else
    const V average = running_mean_load(channel);
    const V inverse = 1 / sqrt(running_var_load(channel) + eps);
#endif
    V scale = inverse, shift = -average * inverse;
#if HAS_weight
    scale *= weight_load(channel);
    shift *= weight_load(channel);
#endif
#if HAS_bias
    shift += bias_load(channel);
#endif
#define RESULT(type, load, store) \
  out_##store(first + i, input_##load(first + i) * scale + shift);
    FOR_RUNS(START, RESULT)
  }
}
