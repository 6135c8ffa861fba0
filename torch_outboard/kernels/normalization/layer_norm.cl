// Layer normalization and its gradients. Needs rows.cl before it.

#if !HAS_grad_out

// Layer normalization of rows of n elements, scaled and shifted elementwise.

__kernel void layer_norm(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(row) {
    const ob_index first = row * n;
    ROW_VALUE(total, 0)
    SUM_ROW(total, ADD_INPUT)
    const V average = ROW_SUM(total) / (V)n;
    ROW_VALUE(squares, 0)
    SUM_ROW(squares, ADD_SQUARES)
    const V scale = 1 / sqrt(ROW_SUM(squares) / (V)n + eps);
    if (OB_LANE == 0) {
      mean_store(row, average);
      rstd_store(row, scale);
    }
#define RESULT(type, load, store)                                               \
  out_##store(first + i, (input_##load(first + i) - average) * scale            \
                             IF_weight(* weight_##load(i)) IF_bias(+ bias_##load(i)));
    FOR_ROW(RESULT)
  }
}

#else

// The gradients. A work-group writes the input gradient of a chunk of rows and
// partial sums of the other gradients, which the second kernel sums. GPU work-groups compute either
// a row, or adjacent columns of a chunk with sums in registers.

// For rows of one element the gradient is 0, which fused products would miss.
#pragma OPENCL FP_CONTRACT OFF

#define WEIGHTED(load) (grad_out_##load(first + i) IF_weight(* weight_##load(i)))
#define SUMS(type, load, store)                                         \
  {                                                                     \
    const type dy = WEIGHTED(load);                                     \
    total_##type += dy;                                                 \
    product_##type += dy * (input_##load(first + i) - average);         \
  }
#define RESULT(type, load, store)                                                             \
  grad_input_##store(                                                                         \
      first + i, (WEIGHTED(load) - shift - (input_##load(first + i) - average) * slope) * scale);
// The input gradient of a row whose elements begin at `first`.
#define GRAD_INPUT                                            \
  ROW_VALUE(total, 0)                                         \
  ROW_VALUE(product, 0)                                       \
  FOR_ROW(SUMS)                                               \
  const V shift = ROW_SUM(total) / (V)n;                      \
  const V slope = ROW_SUM(product) * scale * scale / (V)n;    \
  FOR_ROW(RESULT)

#if OB_LOCAL == 1
__kernel void layer_norm_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(chunk) {
    const ob_index chunk_rows = (row_count + chunks - 1) / chunks, start = chunk * chunk_rows;
    for (ob_index row = start; row < min(start + chunk_rows, row_count); ++row) {
      const ob_index first = row * n;
      const V average = mean_load(row), scale = rstd_load(row);
      IF_grad_input(GRAD_INPUT)
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
  IF_grad_weight(grad_weight_store(i, weight_total);)
  IF_grad_bias(grad_bias_store(i, bias_total);)
}
#else

// Sums of columns i.. of the rows of a chunk that are `slices` apart.
#define PARTS(type, load, store)                                                           \
  {                                                                                        \
    type weight_part = 0, bias_part = 0;                                                   \
    _Pragma("unroll 4") for (ob_index row = start + slice; row < end; row += slices) {     \
      const V scale = rstd_load(row), offset = -scale * mean_load(row);                    \
      const type dy = grad_out_##load(row * n + i);                                        \
      const type x = fma((type)(scale), input_##load(row * n + i), (type)(offset));        \
      weight_part += dy * x;                                                               \
      bias_part += dy;                                                                     \
    }                                                                                      \
    weight_parts_##store((chunk * slices + slice) * n + i, weight_part);                   \
    bias_parts_##store((chunk * slices + slice) * n + i, bias_part);                       \
  }

// Items below chunks * tiles are columns of chunks, which take longer; rows follow.
__kernel void layer_norm_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  const ob_index slice_lanes = OB_LOCAL / slices, slice = OB_LANE / slice_lanes;
  const ob_index lane = OB_LANE - slice * slice_lanes;
  ob_index item = get_group_id(0);
  for (; item < chunks * tiles; item += get_num_groups(0)) {
    const ob_index chunk = item / tiles, column = (item - chunk * tiles) * tile;
    const ob_index last = min(column + tile, n);
    const ob_index start = chunk * chunk_rows, end = min(start + chunk_rows, row_count);
    if (slice >= slices) continue;
    for (ob_index i = column + lane * W; i + W <= last; i += slice_lanes * W) {
      PARTS(T, load_vector, store_vector)
    }
    for (ob_index i = column + (last - column) / W * W + lane; i < last; i += slice_lanes) {
      PARTS(V, load, store)
    }
  }
  for (; item < ob_items; item += get_num_groups(0)) {
    const ob_index row = item - chunks * tiles, first = row * n;
    const V average = mean_load(row), scale = rstd_load(row);
    IF_grad_input(GRAD_INPUT)
  }
}

// A work-group sums the parts of adjacent columns, a work-item every SLICES-th part of one.
#define COLUMNS (OB_LOCAL < 32 ? OB_LOCAL : 32)
#define SLICES (OB_LOCAL / COLUMNS)

__kernel void layer_norm_columns(OB_PARAMETERS) {
  OB_BEGIN
  __local V weight_totals[OB_LOCAL], bias_totals[OB_LOCAL];
  const ob_index slice = OB_LANE / COLUMNS, lane = OB_LANE - slice * COLUMNS;
  const ob_index i = (ob_index)get_group_id(0) * COLUMNS + lane;
  V weight_total = 0, bias_total = 0;
  if (slice < SLICES && i < n) {
    for (ob_index part = slice; part < chunks * slices; part += SLICES) {
      weight_total += weight_parts_load(part * n + i);
      bias_total += bias_parts_load(part * n + i);
    }
  }
  weight_totals[OB_LANE] = weight_total;
  bias_totals[OB_LANE] = bias_total;
  OB_BARRIER
  if (slice > 0 || i >= n) return;
  for (ob_index other = 1; other < SLICES; ++other) {
    weight_total += weight_totals[other * COLUMNS + lane];
    bias_total += bias_totals[other * COLUMNS + lane];
  }
  IF_grad_weight(grad_weight_store(i, weight_total);)
  IF_grad_bias(grad_bias_store(i, bias_total);)
}
#endif

#endif
