// The gradients of layer_norm.cl. A group takes a chunk of rows, writes the gradient of their
// input, and adds up the parts of the other gradients, which the second kernel adds.

// Of rows of one element the gradient is 0, which products of more digits would miss.
#pragma OPENCL FP_CONTRACT OFF

#if HAS_weight
#define WEIGHTED(load) (grad_out_##load(first + i) * weight_##load(i))
#else
#define WEIGHTED(load) grad_out_##load(first + i)
#endif

__kernel void layer_norm_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(chunk) {
    const ob_index chunk_rows = (row_count + chunks - 1) / chunks, start = chunk * chunk_rows;
    for (ob_index row = start; row < min(start + chunk_rows, row_count); ++row) {
      const ob_index first = row * n;
      const V average = mean_load(row), scale = rstd_load(row);
#if HAS_grad_input
      ROW_VALUE(total, 0)
      ROW_VALUE(product, 0)
#define SUMS(type, load, store)                                         \
  {                                                                     \
    const type dy = WEIGHTED(load);                                     \
    total_##type += dy;                                                 \
    product_##type += dy * (input_##load(first + i) - average);         \
  }
      FOR_ROW(SUMS)
      const V shift = ROW_SUM(total) / (V)n;
      const V slope = ROW_SUM(product) * scale * scale / (V)n;
#define RESULT(type, load, store)                                                             \
  grad_input_##store(                                                                         \
      first + i, (WEIGHTED(load) - shift - (input_##load(first + i) - average) * slope) * scale);
      FOR_ROW(RESULT)
#endif
#if HAS_grad_weight || HAS_grad_bias
      // A lane always adds to the same columns.
      const ob_index part = chunk * n;
      const V offset = -scale * average;
#define PARTS(type, load, store)                                                               \
  {                                                                                            \
    const type dy = grad_out_##load(first + i);                                                \
    const type x = fma((type)(scale), input_##load(first + i), (type)(offset));                \
    weight_parts_##store(part + i, row == start ? dy * x : weight_parts_##load(part + i) + dy * x); \
    bias_parts_##store(part + i, row == start ? dy : bias_parts_##load(part + i) + dy);        \
  }
      FOR_ROW(PARTS)
#endif
    }
  }
}

__kernel void layer_norm_columns(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  V weight_total = 0, bias_total = 0;
  for (ob_index chunk = 0; chunk < chunks; ++chunk) {
    weight_total += weight_parts_load(chunk * n + i);
    bias_total += bias_parts_load(chunk * n + i);
  }
#if HAS_grad_weight
  grad_weight_store(i, weight_total);
#endif
#if HAS_grad_bias
  grad_bias_store(i, bias_total);
#endif
}
