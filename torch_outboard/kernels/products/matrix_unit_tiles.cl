// Tiles for 16-bit floating point by the instructions of matrix_units.cl. Needs group_tiles.cl
// before it.
//
// A work-group multiplies slices of UNIT_DEPTH of both operands in local memory. It is pipelined:
// one of STAGES slices is multiplied while others are loaded. A slice has the order of its operand
// in global memory. A unit is 16 bytes. Units are swizzled so that eight work-items that read, or
// write, adjacent ones access all banks:
//   adjacent along K      unit u of line l is in line l at u ^ l % 8, or, if a line has four units,
//                         at u ^ l / 2 % 4
//   adjacent lines        blocks of 64 lines have 8 units per K index d; unit u is at u ^ d % 8
// That is PTX's swizzling by 128 bytes, or by 64 if a line has four units.
//
// The generator defines, beside the macros of group_tiles.cl,
//   UNIT_ROWS, UNIT_COLUMNS    of a tile: multiples of 64
//   UNIT_DEPTH                 of a slice: 32 or 64
//   WARPS_DOWN, WARPS_ACROSS   warps of a group, which share a tile
//   STAGES                     slices in local memory
//   WARPGROUPS                 defined: four warps multiply 64 rows together (wgmma). UNIT_DEPTH is
//                              64, and WARPS_ACROSS is 1

#define LINE_UNITS (UNIT_DEPTH / 8)
// Iterations from the load of a slice to its product. Warpgroups still multiply the previous slice
// while a new one is loaded.
#ifdef WARPGROUPS
#define AHEAD (STAGES - 2)
#else
#define AHEAD (STAGES - 1)
#endif
// Per warp: blocks of 16 rows, and of 16 columns.
#define ROW_BLOCKS (UNIT_ROWS / WARPS_DOWN / 16)
#define COLUMN_BLOCKS (UNIT_COLUMNS / WARPS_ACROSS / 16)
#define WARP_ROWS (UNIT_ROWS / WARPS_DOWN)
#define WARP_COLUMNS (UNIT_COLUMNS / WARPS_ACROSS)
// Pairs of elements of a slice per work-item, if it cannot load units.
#define LEFT_PAIRS (UNIT_ROWS * UNIT_DEPTH / 2 / UNIT_ITEMS)
#define RIGHT_PAIRS (UNIT_COLUMNS * UNIT_DEPTH / 2 / UNIT_ITEMS)
// Bytes of a slice.
#define LEFT_BYTES (UNIT_ROWS * UNIT_DEPTH * 2)
#define RIGHT_BYTES (UNIT_COLUMNS * UNIT_DEPTH * 2)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
// Floats per row of results in local memory: 8 of padding, for a warp's writes to all banks.
#define RESULT_LINE (UNIT_COLUMNS + 8)

#define RESULT_BYTES (WARP_ROWS * RESULT_LINE * 4)
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))

// Offset of a unit of a slice, in units. `unit` counts along K, or lines.
static inline int unit_along_depth(int line, int unit) {
  return line * LINE_UNITS + (unit ^ (LINE_UNITS == 8 ? line % 8 : line / 2 % 4));
}
static inline int unit_along_lines(int unit, int depth) {
  return unit / 8 * (8 * UNIT_DEPTH) + depth * 8 + (unit % 8 ^ depth % 8);
}

// Of unit number e of a work-item: `unit` counts along K or lines, `other` the other way, `at` is
// the offset in the slice.
#define UNIT_OF(e)                                                                     \
  const int number = item + (e) * UNIT_ITEMS, along = access & ALONG_DEPTH;            \
  const int units = along ? LINE_UNITS : tile_lines / 8;                               \
  const int unit = number % units, other = number / units;                             \
  const int at = along ? unit_along_depth(other, unit) : unit_along_lines(unit, other);

// Copies units of a slice with `lines` existing lines and `depths` existing K indices.
static inline void copy_units(LocalAddress to, const __global ushort *from, const int access,
                              const int tile_lines, int item, I lines, I depths, I line_stride,
                              I depth_stride) {
  UNIT_UNROLL
  for (int e = 0; e < tile_lines * LINE_UNITS / UNIT_ITEMS; ++e) {
    UNIT_OF(e)
    const I rest = other < (along ? lines : depths) ? (along ? depths : lines) - unit * 8 : 0;
    const int bytes = (int)clamp(rest, (I)0, (I)8) * 2;
    const I offset = other * (along ? line_stride : depth_stride) + unit * 8;
    COPY_ASYNC(to + at * 16, from + (bytes > 0 ? offset : 0), bytes);
  }
}

// The line and the K index of a pair of elements, and its offset in pairs.
static inline int2 pair_of(const int access, const int tile_lines, int item, int e) {
  const int number = item + e * UNIT_ITEMS;
  if (access & ALONG_DEPTH) return (int2)(number / (UNIT_DEPTH / 2), number % (UNIT_DEPTH / 2) * 2);
  return (int2)(number % (tile_lines / 2) * 2, number / (tile_lines / 2));
}
static inline int offset_of_pair(const int access, int2 pair) {
  return access & ALONG_DEPTH ? unit_along_depth(pair.x, pair.y / 8) * 4 + pair.y % 8 / 2
                           : unit_along_lines(pair.x / 8, pair.y) * 4 + pair.x % 8 / 2;
}
static inline uint word_of(ushort first, ushort second) { return first | (uint)second << 16; }

static inline void read_pairs(uint *pairs, const __global ushort *from, const int access,
                              const int tile_lines, int item, I lines, I depths, I line_stride,
                              I depth_stride) {
  UNIT_UNROLL
  for (int e = 0; e < tile_lines * UNIT_DEPTH / 2 / UNIT_ITEMS; ++e) {
    const int2 pair = pair_of(access, tile_lines, item, e);
    const int along = access & ALONG_DEPTH;
    const int line = pair.x + !along, depth = pair.y + (along ? 1 : 0);
    ushort first = 0, second = 0;
    if (pair.x < lines && pair.y < depths) first = from[pair.x * line_stride + pair.y * depth_stride];
    if (line < lines && depth < depths) second = from[line * line_stride + depth * depth_stride];
    pairs[e] = word_of(first, second);
  }
}

static inline void write_pairs(const uint *pairs, __local uint *to, const int access,
                               const int tile_lines, int item) {
  UNIT_UNROLL
  for (int e = 0; e < tile_lines * UNIT_DEPTH / 2 / UNIT_ITEMS; ++e) {
    to[offset_of_pair(access, pair_of(access, tile_lines, item, e))] = pairs[e];
  }
}

// A work-item's row address for ldmatrix of 16 lines from `line` on and 16 K indices from `depth`
// on: lines 0 to 7, then 8 to 15, of 8 K indices, then the same of the next 8.
static inline int row_of_matrices(const int access, int line, int depth, int item) {
  const int row = item % 8, later_lines = item / 8 % 2, later_depths = item / 16 % 2;
  if (access & ALONG_DEPTH) {
    return unit_along_depth(line + later_lines * 8 + row, depth / 8 + later_depths) * 16;
  }
  return unit_along_lines(line / 8 + later_lines, depth + later_depths * 8 + row) * 16;
}
#define LOAD_BLOCK(to, access, slice, line, depth)                             \
  if ((access) & ALONG_DEPTH) {                                                \
    LOAD_MATRICES(to, (slice) + row_of_matrices(access, line, depth, item));   \
  } else {                                                                     \
    LOAD_TRANSPOSED(to, (slice) + row_of_matrices(access, line, depth, item)); \
  }

#ifdef IMAGE
static inline ushort image_value(const __global ushort *from, int4 location, const Image *image) {
  return INSIDE(location, image->size) ? from[location.x] : (ushort)0;
}

// Copies units of a slice of the image: 8 channels of one position, along K or along lines.
static inline void copy_image_units(LocalAddress to, const __global ushort *from, const int access,
                                    const int tile_lines, int item,
                                    const __local int4 *line_locations,
                                    const __local int4 *depth_locations, const Image *image) {
  UNIT_UNROLL
  for (int e = 0; e < tile_lines * LINE_UNITS / UNIT_ITEMS; ++e) {
    UNIT_OF(e)
    const int4 location =
        line_locations[along ? other : unit * 8] + depth_locations[along ? unit * 8 : other];
    const int copied = INSIDE(location, image->size);
    COPY_ASYNC(to + at * 16, from + (copied ? location.x : 0), copied ? 16 : 0);
  }
}

// Copies units of a slice of the other operand, with offsets along K in `offsets`.
static inline void copy_units_at(LocalAddress to, const __global ushort *from, const int access,
                                 const int tile_lines, int item, I lines, I depths, I line_stride,
                                 const __local int *offsets) {
  UNIT_UNROLL
  for (int e = 0; e < tile_lines * LINE_UNITS / UNIT_ITEMS; ++e) {
    UNIT_OF(e)
    const int line = along ? other : unit * 8, depth = along ? unit * 8 : other;
    const I rest = depth < depths ? lines - line : 0;
    const int bytes = along ? (rest > 0 ? 16 : 0) : (int)clamp(rest, (I)0, (I)8) * 2;
    COPY_ASYNC(to + at * 16, from + (bytes > 0 ? line * line_stride + offsets[depth] : 0), bytes);
  }
}
#endif
#define UNITS_OF(access) ((access) & VECTORS)

// NVIDIA's OpenCL runs at most 256 work-items of a kernel without this attribute.
__kernel __attribute__((reqd_work_group_size(UNIT_ITEMS, 1, 1))) void group_tiles(PARAMETERS) {
  BEGIN
  __local uchar slices[MAX_OF(STAGES * STAGE_BYTES, RESULT_BYTES)] __attribute__((aligned(1024)));
  UNIT_SCRATCH
  TILE_OF_GROUP(UNIT_ROWS, UNIT_COLUMNS)
  const int warp = item / 32;
  const int down = warp / WARPS_ACROSS * WARP_ROWS, across = warp % WARPS_ACROSS * WARP_COLUMNS;

  const __global ushort *left_from =
      (const __global ushort *)left + batch * l.left.batch + first_row * l.left.row;
  const __global ushort *right_from = (const __global ushort *)right + batch * l.right.batch;
#ifdef IMAGE
  FIND_LOCATIONS(UNIT_COLUMNS, UNIT_ITEMS)
#else
  left_from += begin * l.left.column;
  right_from += first_column * l.right.column + begin * l.right.row;
#endif

  float sums[ROW_BLOCKS][2 * COLUMN_BLOCKS][4];
  UNIT_UNROLL
  for (int r = 0; r < ROW_BLOCKS; ++r) {
    UNIT_UNROLL
    for (int c = 0; c < 2 * COLUMN_BLOCKS; ++c) {
      UNIT_UNROLL
      for (int i = 0; i < 4; ++i) sums[r][c][i] = 0;
    }
  }

  // An iteration loads the slice at k, and multiplies the slice loaded AHEAD iterations before.
  const LocalAddress first_slice = LOCAL_ADDRESS(slices);
  int reading = 0, multiplying = 0;
  for (I round = 0, k = 0; k < depth + AHEAD * UNIT_DEPTH; k += UNIT_DEPTH, ++round) {
    const int multiplies = round >= AHEAD;
    WAIT_FOR_COPIES(AHEAD - 1);
#ifdef WARPGROUPS
    SHOW_COPIES;
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    const LocalAddress left_slice = first_slice + multiplying * STAGE_BYTES;
    const LocalAddress right_slice = left_slice + LEFT_BYTES;
#ifdef WARPGROUPS
    if (multiplies) {
      WARPGROUP_ARRIVE;
      UNIT_UNROLL
      for (int at = 0; at < UNIT_DEPTH; at += 16) {
        WARPGROUP_MULTIPLY(sums[0], LEFT_ACCESS, left_slice + warp / 4 * (64 * UNIT_DEPTH * 2), at,
                           RIGHT_ACCESS, right_slice, at);
      }
      WARPGROUP_COMMIT;
    }
#endif
    const LocalAddress left_to = first_slice + reading * STAGE_BYTES;
    uint left_pairs[LEFT_PAIRS], right_pairs[RIGHT_PAIRS];
    if (k < depth) {
#ifdef IMAGE
      const int kept = (int)(k % KEPT);
      if (UNITS_OF(LEFT_ACCESS)) {
        copy_units_at(left_to, left_from, LEFT_ACCESS, UNIT_ROWS, item, l.rows - first_row,
                      depth - k, l.left.row, left_offsets + kept);
      }
      if (UNITS_OF(RIGHT_ACCESS)) {
        copy_image_units(left_to + LEFT_BYTES, right_from, RIGHT_ACCESS, UNIT_COLUMNS, item,
                         column_locations, depth_locations + kept, &source);
      }
      UNIT_UNROLL
      for (int e = 0; e < LEFT_PAIRS && !UNITS_OF(LEFT_ACCESS); ++e) {
        const int2 pair = pair_of(LEFT_ACCESS, UNIT_ROWS, item, e);
        const int along = LEFT_ACCESS & ALONG_DEPTH;
        const int line = pair.x + !along, at = pair.y + (along ? 1 : 0);
        ushort first = 0, second = 0;
        if (first_row + pair.x < l.rows && k + pair.y < depth) {
          first = left_from[pair.x * l.left.row + left_offsets[kept + pair.y]];
        }
        if (first_row + line < l.rows && k + at < depth) {
          second = left_from[line * l.left.row + left_offsets[kept + at]];
        }
        left_pairs[e] = word_of(first, second);
      }
      UNIT_UNROLL
      for (int e = 0; e < RIGHT_PAIRS && !UNITS_OF(RIGHT_ACCESS); ++e) {
        const int2 pair = pair_of(RIGHT_ACCESS, UNIT_COLUMNS, item, e);
        const int along = RIGHT_ACCESS & ALONG_DEPTH;
        const int line = pair.x + !along, at = pair.y + (along ? 1 : 0);
        right_pairs[e] =
            word_of(image_value(right_from,
                                column_locations[pair.x] + depth_locations[kept + pair.y], &source),
                    image_value(right_from, column_locations[line] + depth_locations[kept + at],
                                &source));
      }
      // Offsets of the next chunk: the previous chunk was read an iteration ago.
      if (k > 0 && k % CHUNK == 0 && item < CHUNK) {
        const int to = (int)((k + CHUNK) % KEPT) + item;
        int offset;
        depth_locations[to] =
            image_location(begin + k + CHUNK + item, l.depth, &source.depth, &source, &offset);
        left_offsets[to] = offset;
      }
#else
      if (UNITS_OF(LEFT_ACCESS)) {
        copy_units(left_to, left_from, LEFT_ACCESS, UNIT_ROWS, item, l.rows - first_row, depth - k,
                   l.left.row, l.left.column);
      } else {
        read_pairs(left_pairs, left_from, LEFT_ACCESS, UNIT_ROWS, item, l.rows - first_row,
                   depth - k, l.left.row, l.left.column);
      }
      if (UNITS_OF(RIGHT_ACCESS)) {
        copy_units(left_to + LEFT_BYTES, right_from, RIGHT_ACCESS, UNIT_COLUMNS, item,
                   l.columns - first_column, depth - k, l.right.column, l.right.row);
      } else {
        read_pairs(right_pairs, right_from, RIGHT_ACCESS, UNIT_COLUMNS, item,
                   l.columns - first_column, depth - k, l.right.column, l.right.row);
      }
      left_from += UNIT_DEPTH * l.left.column;
      right_from += UNIT_DEPTH * l.right.row;
#endif
    }
    COMMIT_COPIES;
    if (multiplies) {
#ifdef WARPGROUPS
      WARPGROUP_WAIT(1);
#else
      UNIT_UNROLL
      for (int at = 0; at < UNIT_DEPTH; at += 16) {
        uint rows[ROW_BLOCKS][4], columns[COLUMN_BLOCKS][4];
        UNIT_UNROLL
        for (int r = 0; r < ROW_BLOCKS; ++r) {
          LOAD_BLOCK(rows[r], LEFT_ACCESS, left_slice, down + 16 * r, at)
        }
        UNIT_UNROLL
        for (int c = 0; c < COLUMN_BLOCKS; ++c) {
          LOAD_BLOCK(columns[c], RIGHT_ACCESS, right_slice, across + 16 * c, at)
        }
        UNIT_UNROLL
        for (int r = 0; r < ROW_BLOCKS; ++r) {
          UNIT_UNROLL
          for (int c = 0; c < COLUMN_BLOCKS; ++c) {
            MULTIPLY_ADD(sums[r][2 * c], rows[r], columns[c][0], columns[c][2]);
            MULTIPLY_ADD(sums[r][2 * c + 1], rows[r], columns[c][1], columns[c][3]);
          }
        }
      }
#endif
      multiplying = multiplying + 1 == STAGES ? 0 : multiplying + 1;
    }
    if (k < depth) {
      __local uint *to = (__local uint *)(slices + reading * STAGE_BYTES);
      if (!UNITS_OF(LEFT_ACCESS)) write_pairs(left_pairs, to, LEFT_ACCESS, UNIT_ROWS, item);
      if (!UNITS_OF(RIGHT_ACCESS)) {
        write_pairs(right_pairs, to + LEFT_BYTES / 4, RIGHT_ACCESS, UNIT_COLUMNS, item);
      }
    }
    reading = reading + 1 == STAGES ? 0 : reading + 1;
  }

#ifdef WARPGROUPS
  WARPGROUP_WAIT(0);
#endif

  // Results pass through local memory, one row of warps at a time, so that adjacent work-items
  // store adjacent elements: columns, or rows if these are adjacent in memory.
  const int by_rows = l.out.row == 1 && l.out.column != 1;
  __local float *results = (__local float *)slices;
  const int g = item % 32 / 4, t = item % 4;
  for (int turn = 0; turn < WARPS_DOWN; ++turn) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (warp / WARPS_ACROSS == turn) {
      UNIT_UNROLL
      for (int r = 0; r < ROW_BLOCKS; ++r) {
        UNIT_UNROLL
        for (int c = 0; c < 2 * COLUMN_BLOCKS; ++c) {
          __local float *to = results + (r * 16 + g) * RESULT_LINE + across + c * 8 + 2 * t;
          vstore2((float2)(sums[r][c][0], sums[r][c][1]), 0, to);
          vstore2((float2)(sums[r][c][2], sums[r][c][3]), 0, to + 8 * RESULT_LINE);
        }
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int v = item; v < WARP_ROWS * UNIT_COLUMNS / W; v += UNIT_ITEMS) {
      const int in_tile = (by_rows ? v / WARP_ROWS : v % (UNIT_COLUMNS / W)) * W;
      const int line = by_rows ? v % WARP_ROWS : v / (UNIT_COLUMNS / W);
      const I row = first_row + turn * WARP_ROWS + line;
      const I column = first_column + in_tile;
      if (row >= l.rows || column >= l.columns) continue;
      const V sum = VLOAD(0, results + line * RESULT_LINE + in_tile);
      STORE_IN_TILE(sum)
    }
  }
}
