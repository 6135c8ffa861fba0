// Batch normalization of (blocks, channels, n) with statistics of the batch (TRAINING) or given
// ones, and its gradients. A work-group computes a channel, or with IN_PARTS one of the `parts` of
// a channel: GPUs run more work-groups than most tensors have channels. Needs rows.cl before it.

#define START (block * channels + channel) * n
#if IN_PARTS
#define FOR_ELEMENTS(BODY) FOR_PART(BEGIN_OF_PART, END_OF_PART, START, BODY)
#else
#define FOR_ELEMENTS(BODY) FOR_RUNS(START, BODY)
#endif
#define PART const ob_index channel = group / parts, part = group % parts;

#define RUNNING_STATISTICS                      \
  const V average = running_mean_load(channel); \
  const V inverse = 1 / sqrt(running_var_load(channel) + eps);

#if !HAS_grad_out

#if TRAINING
#define STATISTICS const V average = mean_load(channel), inverse = rstd_load(channel);
#else
#define STATISTICS RUNNING_STATISTICS
#endif

#define RESULT(type, load, store) \
  out_##store(first + i, input_##load(first + i) * scale + shift);

#if ROUNDED
// CPU continues with both rounded to the dtype of the statistics.
#define ROUND_STATISTICS           \
  rstd_store(channel, variation);  \
  average = mean_load(channel);    \
  variation = rstd_load(channel);
#else
#define ROUND_STATISTICS
#endif
#if HAS_running_mean
#define STORE_RUNNING_MEAN \
  running_mean_store(channel, momentum * average + (1 - momentum) * running_mean_load(channel));
#else
#define STORE_RUNNING_MEAN
#endif
#if HAS_running_var
#define STORE_RUNNING_VAR                                                  \
  running_var_store(channel, momentum * (variation / (count - 1)) +        \
                                 (1 - momentum) * running_var_load(channel));
#else
#define STORE_RUNNING_VAR
#endif
// Of the mean of a channel's `count` elements and the sum of their squared deviations.
#define STORE_STATISTICS                                   \
  mean_store(channel, average);                            \
  ROUND_STATISTICS                                         \
  rstd_store(channel, 1 / sqrt(variation / count + eps));  \
  STORE_RUNNING_MEAN                                       \
  STORE_RUNNING_VAR

#if IN_PARTS

__kernel void batch_norm_parts(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(group) {
    PART
    ROW_VALUE(total, 0)
    FOR_ELEMENTS(ADD_INPUT)
    // The last parts may be empty.
    const V average = ROW_SUM(total) / (V)max(END_OF_PART - BEGIN_OF_PART, (ob_index)1);
    ROW_VALUE(squares, 0)
    FOR_ELEMENTS(ADD_SQUARES)
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
    if (OB_LANE == 0) {
      STORE_STATISTICS
    }
  }
}

#else

__kernel void batch_norm_parts(OB_PARAMETERS) {}
__kernel void batch_norm_statistics(OB_PARAMETERS) {}

#endif

__kernel void batch_norm(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(group) {
    PART
#if TRAINING && !IN_PARTS
    {
      ROW_VALUE(total, 0)
      SUM_RUNS(total, START, ADD_INPUT)
      const V count = (V)blocks * (V)n;
      V average = ROW_SUM(total) / count;
      ROW_VALUE(squares, 0)
      SUM_RUNS(squares, START, ADD_SQUARES)
      V variation = ROW_SUM(squares);
      if (OB_LANE == 0) {
        STORE_STATISTICS
      }
      OB_BARRIER
    }
#endif
    STATISTICS
    V scale = inverse, shift = -average * inverse;
    IF_weight(scale *= weight_load(channel); shift *= weight_load(channel);)
    IF_bias(shift += bias_load(channel);)
    FOR_ELEMENTS(RESULT)
  }
}

#else

#if !TRAINING
#define STATISTICS RUNNING_STATISTICS
#elif defined(HAS_save_var)
#define STATISTICS const V average = save_mean_load(channel), inverse = save_var_load(channel);
#else
#define STATISTICS const V average = save_mean_load(channel), inverse = save_invstd_load(channel);
#endif

#if TRAINING
#define SHIFT_AND_SLOPE               \
  const V count = (V)blocks * (V)n;   \
  const V shift = total / count, slope = product * inverse * inverse / count;
#define RESULT(type, load, store)                                                           \
  grad_input_##store(                                                                       \
      first + i,                                                                            \
      (grad_out_##load(first + i) - shift - (input_##load(first + i) - average) * slope) * scale);
#else
#define SHIFT_AND_SLOPE
#define RESULT(type, load, store) \
  grad_input_##store(first + i, grad_out_##load(first + i) * scale);
#endif

#if IN_PARTS

__kernel void batch_norm_backward_parts(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(group) {
    PART
    STATISTICS
    ROW_VALUE(total, 0)
    ROW_VALUE(product, 0)
    FOR_ELEMENTS(ADD_GRADIENTS)
    const V total = ROW_SUM(total), product = ROW_SUM(product);
    if (OB_LANE == 0) {
      totals_store(group, total);
      products_store(group, product);
    }
  }
}

#else

__kernel void batch_norm_backward_parts(OB_PARAMETERS) {}

#endif

__kernel void batch_norm_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(group) {
    PART
    STATISTICS
#if IN_PARTS
    V total = 0, product = 0;
    for (ob_index k = OB_LANE; k < parts; k += OB_LOCAL) {
      total += totals_load(channel * parts + k);
      product += products_load(channel * parts + k);
    }
    total = OB_GROUP_SUM(total);
    product = OB_GROUP_SUM(product);
#elif TRAINING || HAS_grad_weight || HAS_grad_bias
    ROW_VALUE(total, 0)
    ROW_VALUE(product, 0)
    FOR_ELEMENTS(ADD_GRADIENTS)
    const V total = ROW_SUM(total), product = ROW_SUM(product);
#endif
    if (part == 0 && OB_LANE == 0) {
      IF_grad_weight(grad_weight_store(channel, product * inverse);)
      IF_grad_bias(grad_bias_store(channel, total);)
    }
#if HAS_grad_input
    V scale = inverse;
    IF_weight(scale *= weight_load(channel);)
    SHIFT_AND_SLOPE
    FOR_ELEMENTS(RESULT)
#endif
  }
}

#endif
