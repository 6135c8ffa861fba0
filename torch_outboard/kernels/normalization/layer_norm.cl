// Layer normalization of rows of n elements, scaled and shifted elementwise.

__kernel void layer_norm(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(row) {
    const ob_index first = row * n;
    ROW_VALUE(total, 0)
#define TOTAL(type, load, store) total_##type += input_##load(first + i);
    FOR_ROW(TOTAL)
    const V average = ROW_SUM(total) / (V)n;
    ROW_VALUE(squares, 0)
#define SQUARES(type, load, store)                       \
  {                                                      \
    const type d = input_##load(first + i) - average;    \
    squares_##type += d * d;                             \
  }
    FOR_ROW(SQUARES)
    const V scale = 1 / sqrt(ROW_SUM(squares) / (V)n + eps);
    if (OB_LANE == 0) {
      mean_store(row, average);
      rstd_store(row, scale);
    }
#if HAS_weight
#define WEIGHT(load) * weight_##load(i)
#else
#define WEIGHT(load)
#endif
#if HAS_bias
#define BIAS(load) + bias_##load(i)
#else
#define BIAS(load)
#endif
#define RESULT(type, load, store)                                                                 \
  out_##store(first + i, (input_##load(first + i) - average) * scale WEIGHT(load) BIAS(load));
    FOR_ROW(RESULT)
  }
}
