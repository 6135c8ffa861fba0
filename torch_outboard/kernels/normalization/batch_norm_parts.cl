// batch_norm.cl for GPUs that run more work-groups than there are channels: each computes one of
// the `parts` of a channel.

#define START (block * channels + channel) * n

__kernel void batch_norm_parts(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(group) {
    const ob_index channel = group / parts, part = group % parts;
    ROW_VALUE(total, 0)
#define TOTAL(type, load, store) total_##type += input_##load(first + i);
    FOR_PART(BEGIN_OF_PART, END_OF_PART, START, TOTAL)
    // The last parts may be empty.
    const V average = ROW_SUM(total) / (V)max(END_OF_PART - BEGIN_OF_PART, (ob_index)1);
    ROW_VALUE(squares, 0)
#define SQUARES(type, load, store)                       \
  {                                                      \
    const type d = input_##load(first + i) - average;    \
    squares_##type += d * d;                             \
  }
    FOR_PART(BEGIN_OF_PART, END_OF_PART, START, SQUARES)
    const V variation = ROW_SUM(squares);
    if (OB_LANE == 0) {
      averages_store(group, average);
      variations_store(group, variation);
    }
  }
}

// Combines parts by the method of Chan, Golub and LeVeque (1979), which avoids cancellation.
__kernel void batch_norm_statistics(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(channel) {
    const V count = (V)blocks * (V)n;
    V total = 0;
    for (ob_index part = OB_LANE; part < parts; part += OB_LOCAL) {
      total += averages_load(channel * parts + part) * (V)(END_OF_PART - BEGIN_OF_PART);
    }
    V average = OB_GROUP_SUM(total) / count;
    V squares = 0;
    for (ob_index part = OB_LANE; part < parts; part += OB_LOCAL) {
      const V d = averages_load(channel * parts + part) - average;
      squares += variations_load(channel * parts + part) +
                 d * d * (V)(END_OF_PART - BEGIN_OF_PART);
    }
    V variation = OB_GROUP_SUM(squares);
    if (OB_LANE != 0) continue;
    mean_store(channel, average);
#if ROUNDED
    // CPU continues with both rounded to the dtype of the statistics.
    rstd_store(channel, variation);
    average = mean_load(channel);
    variation = rstd_load(channel);
#endif
    rstd_store(channel, 1 / sqrt(variation / count + eps));
#if HAS_running_mean
    running_mean_store(channel, momentum * average + (1 - momentum) * running_mean_load(channel));
#endif
#if HAS_running_var
    running_var_store(channel, momentum * (variation / (count - 1)) +
                                   (1 - momentum) * running_var_load(channel));
#endif
  }
}

__kernel void batch_norm_results(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(group) {
    const ob_index channel = group / parts, part = group % parts;
#if TRAINING
    const V average = mean_load(channel), inverse = rstd_load(channel);
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
    FOR_PART(BEGIN_OF_PART, END_OF_PART, START, RESULT)
  }
}
