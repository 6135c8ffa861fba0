// Products and convolutions with few rows or few columns, too few for a tile, on GPUs: sums without
// local memory for operands. Needs group_tiles.cl before it, whose operands, split K and stores it
// uses.

// The sum over `lanes` work-items, a power of two, `apart` apart, for the first of them. All
// work-items of a group call it.
static inline S sum_of_lanes(S sum, __local S *sums, int item, int lane, int lanes, int apart) {
  sums[item] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int reach = lanes / 2; reach > 0; reach /= 2) {
    if (lane < reach) sums[item] += sums[item + reach * apart];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return sums[item];
}

// Stores one result, or its part.
static inline void store_sum(S sum, __global X *out, const __global X *added, __global S *partials,
                             I at, I part, I batch, I row, I column, const Layout *l,
                             const S alpha, const S beta, const int adds) {
  if (l->parts > 1) {
    const I line = (part * l->batches + batch) * l->rows + row;
    partials[line * row_vectors(l) * W + column] = sum;
    return;
  }
  S value = alpha * sum;
  if (adds) {
    const I from = batch * l->added.batch + row * l->added.row + column * l->added.column;
    value += beta * LOAD(added, from);
  }
  STORE(out, at, value);
}

#ifndef IMAGE
// Few columns: several work-items have a row. If rows are contiguous along K, these are 32 adjacent
// ones; otherwise adjacent work-items have 32 rows.
GROUP_KERNEL void thin_products(PARAMETERS) {
  BEGIN
  __local S sums[ITEMS];
  const int item = get_local_id(0);
  const int along = l.left_access & ALONG_DEPTH;
  const int lanes = along ? 32 : ITEMS / 32;
  const int lines = ITEMS / lanes;
  const int line = along ? item / lanes : item % lines;
  const int lane = along ? item % lanes : item / lines;
  I rest = get_group_id(0);
  const I blocks = (l.rows + lines - 1) / lines;
  const I row = rest % blocks * lines + line;
  rest /= blocks;
  const I part = rest % l.parts;
  rest /= l.parts;
  const I column = rest % l.columns;
  const I batch = rest / l.columns;
  S sum = 0;
  if (row < l.rows) {
    const __global X *a = left + batch * l.left.batch + row * l.left.row;
    const __global X *b = right + batch * l.right.batch + column * l.right.column;
    const I end = min(l.depth, (part + 1) * l.part);
    I k = part * l.part + lane;
    // Four sums, so that several loads are in flight.
    S each[4] = {0, 0, 0, 0};
    for (; k + 3 * lanes < end; k += 4 * lanes) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const I at = k + i * lanes;
        each[i] += LOAD(a, at * l.left.column) * LOAD(b, at * l.right.row);
      }
    }
    for (; k < end; k += lanes) each[0] += LOAD(a, k * l.left.column) * LOAD(b, k * l.right.row);
    sum = (each[0] + each[1]) + (each[2] + each[3]);
  }
  sum = sum_of_lanes(sum, sums, item, lane, lanes, along ? 1 : lines);
  if (lane > 0 || row >= l.rows) return;
  const I at = batch * l.out.batch + row * l.out.row + column * l.out.column;
  store_sum(sum, out, added, partials, at, part, batch, row, column, &layout, alpha, beta, adds);
}
#else
// Few rows: a work-item has W columns of a row.
__kernel void single_rows(PARAMETERS) {
  BEGIN
  const I item = get_global_id(0);
  if (item >= count) return;
  const Image source = image;
  const I vectors = row_vectors(&layout);
  const I column = item % vectors * W;
  const I row = item / vectors % l.rows;
  const I batch = item / vectors / l.rows;
  const __global X *a = left + batch * l.left.batch + row * l.left.row;
  const __global X *b = right + batch * l.right.batch;
  I at[W];
  int4 locations[W];
  S lanes[W];
#pragma unroll
  for (int i = 0; i < W; ++i) {
    int offset;
    locations[i] = image_location(column + i, l.columns, &source.columns, &source, &offset);
    at[i] = column + i < l.columns ? batch * l.out.batch + row * l.out.row + offset : -1;
    lanes[i] = 0;
  }
  const Axes axes = image.depth;
  for (int c = 0; c < axes.size[0] && l.depth > 0; ++c) {
    for (int z = 0; z < axes.size[1]; ++z) {
      for (int y = 0; y < axes.size[2]; ++y) {
        for (int x = 0; x < axes.size[3]; ++x) {
          const int deep = z * axes.step[0] + axes.shift[0];
          const int high = y * axes.step[1] + axes.shift[1];
          const int wide = x * axes.step[2] + axes.shift[2];
          const int offset = c * axes.image + deep * image.stride[0] + high * image.stride[1] +
                             wide * image.stride[2];
          const int4 shift = (int4)(offset, deep, high, wide);
          const S weight = LOAD(a, c * axes.other[0] + z * axes.other[1] + y * axes.other[2] +
                                       x * axes.other[3]);
#pragma unroll
          for (int i = 0; i < W; ++i) {
            const int4 there = locations[i] + shift;
            if (INSIDE(there, image.size)) lanes[i] += weight * LOAD(b, there.x);
          }
        }
      }
    }
  }
  const V sum = VLOAD(0, lanes);
  store_sums(sum, out, added, at, batch, row, column, &layout, alpha, beta, adds);
}

// Few rows and columns: a work-group sums along K for this many results of a row.
#define RESULTS 5
GROUP_KERNEL void few_results(PARAMETERS) {
  BEGIN
  __local S sums[ITEMS];
  const Image source = image;
  const int item = get_local_id(0);
  I rest = get_group_id(0);
  const I blocks = (l.columns + RESULTS - 1) / RESULTS;
  const I column = rest % blocks * RESULTS;
  rest /= blocks;
  const I part = rest % l.parts;
  rest /= l.parts;
  const I row = rest % l.rows;
  const I batch = rest / l.rows;
  const __global X *a = left + batch * l.left.batch + row * l.left.row;
  const __global X *b = right + batch * l.right.batch;
  int4 locations[RESULTS];
  int at[RESULTS];
  S each[RESULTS];
#pragma unroll
  for (int i = 0; i < RESULTS; ++i) {
    locations[i] = image_location(column + i, l.columns, &source.columns, &source, &at[i]);
    each[i] = 0;
  }
  const I end = min(l.depth, (part + 1) * l.part);
  for (I k = part * l.part + item; k < end; k += ITEMS) {
    int from;
    const int4 location = image_location(k, l.depth, &source.depth, &source, &from);
    const S value = LOAD(a, from);
#pragma unroll
    for (int i = 0; i < RESULTS; ++i) {
      const int4 there = location + locations[i];
      if (INSIDE(there, image.size)) each[i] += value * LOAD(b, there.x);
    }
  }
#pragma unroll
  for (int i = 0; i < RESULTS; ++i) {
    const S sum = sum_of_lanes(each[i], sums, item, item, ITEMS, 1);
    if (item == 0 && column + i < l.columns) {
      store_sum(sum, out, added, partials, batch * l.out.batch + row * l.out.row + at[i], part,
                batch, row, column + i, &layout, alpha, beta, adds);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
#endif
