// Group normalization and its gradients. Needs rows.cl before it.

#if !HAS_grad_out

// Group normalization, scaled and shifted per channel. A work-group computes the `blocks` channels
// of a group, n elements each.

__kernel void group_norm(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(row) {
    const V count = (V)blocks * (V)n;
#define START (row * blocks + block) * n
    ROW_VALUE(total, 0)
    SUM_RUNS(total, START, ADD_INPUT)
    const V average = ROW_SUM(total) / count;
    ROW_VALUE(squares, 0)
    SUM_RUNS(squares, START, ADD_SQUARES)
    const V inverse = 1 / sqrt(ROW_SUM(squares) / count + eps);
    if (OB_LANE == 0) {
      mean_store(row, average);
      rstd_store(row, inverse);
    }
    const ob_index channel = row % groups * blocks;
#define RESULT(type, load, store)                                                                 \
  out_##store(first + i, (input_##load(first + i) - average) *                                    \
                             (inverse IF_weight(* weight_load(channel + block)))                  \
                             IF_bias(+ bias_load(channel + block)));
    FOR_RUNS(START, RESULT)
  }
}

#else

// The gradients, of (batch, channels, n).

// Per sample and channel: the sum of the gradient, and of gradient * normalized input.
__kernel void group_norm_sums(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(channel) {
    const ob_index first = channel * n;
    const V average = mean_load(channel / blocks), inverse = rstd_load(channel / blocks);
    ROW_VALUE(total, 0)
    ROW_VALUE(product, 0)
    FOR_ROW(ADD_GRADIENTS)
    const V total = ROW_SUM(total), product = ROW_SUM(product);
    if (OB_LANE == 0) {
      totals_store(channel, total);
      products_store(channel, product * inverse);
    }
  }
}

#define WEIGHT(channel) IF_weight(* weight_load((channel) % channels))

__kernel void group_norm_input(OB_PARAMETERS) {
  OB_BEGIN
#if HAS_grad_input
  OB_FOR_GROUPS(channel) {
    const ob_index first = channel * n, row = channel / blocks;
    const V average = mean_load(row), inverse = rstd_load(row);
    V shift = 0, slope = 0;
    for (ob_index other = row * blocks; other < (row + 1) * blocks; ++other) {
      shift += totals_load(other) WEIGHT(other);
      slope += products_load(other) WEIGHT(other);
    }
    shift /= (V)blocks * (V)n;
    slope *= inverse / ((V)blocks * (V)n);
    const V scale = 1 WEIGHT(channel);
#define RESULT(type, load, store)                                                                 \
  grad_input_##store(first + i, (grad_out_##load(first + i) * scale - shift -                     \
                                 (input_##load(first + i) - average) * slope) * inverse);
    FOR_ROW(RESULT)
  }
#endif
}

__kernel void group_norm_channels(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(channel)
  V total = 0, product = 0;
  for (ob_index b = 0; b < batch; ++b) {
    total += totals_load(b * channels + channel);
    product += products_load(b * channels + channel);
  }
  IF_grad_weight(grad_weight_store(channel, product);)
  IF_grad_bias(grad_bias_store(channel, total);)
}

#endif
