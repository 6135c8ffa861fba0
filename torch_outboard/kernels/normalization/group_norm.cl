// Group normalization, scaled and shifted per channel. A work-group computes the `blocks` channels
// of a group, n elements each.

__kernel void group_norm(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(row) {
    const V count = (V)blocks * (V)n;
#define START (row * blocks + block) * n
    ROW_VALUE(total, 0)
#define TOTAL(type, load, store) total_##type += input_##load(first + i);
    FOR_RUNS(START, TOTAL)
    const V average = ROW_SUM(total) / count;
    ROW_VALUE(squares, 0)
#define SQUARES(type, load, store)                       \
  {                                                      \
    const type d = input_##load(first + i) - average;    \
    squares_##type += d * d;                             \
  }
    FOR_RUNS(START, SQUARES)
    const V inverse = 1 / sqrt(ROW_SUM(squares) / count + eps);
    if (OB_LANE == 0) {
      mean_store(row, average);
      rstd_store(row, inverse);
    }
    const ob_index channel = row % groups * blocks;
#if HAS_weight
#define WEIGHT * weight_load(channel + block)
#else
#define WEIGHT
#endif
#if HAS_bias
#define BIAS + bias_load(channel + block)
#else
#define BIAS
#endif
#define RESULT(type, load, store) \
  out_##store(first + i, (input_##load(first + i) - average) * (inverse WEIGHT) BIAS);
    FOR_RUNS(START, RESULT)
  }
}
