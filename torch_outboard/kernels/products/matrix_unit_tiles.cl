// The tiles of group_tiles.cl, which stands before this text, by the matrix units of NVIDIA's GPUs:
// of operands of 16 bits, with sums in float32.
//
// A warp is 32 work items that run together. It multiplies matrices of 16 x 16 by such of 16 x 8,
// whose elements lie in the registers of its items as the manual of PTX says under
// "Matrix Fragments for mma.m16n8k16 with floating point type". Of item i, g = i / 4, t = i % 4:
//   left     rows g and g + 8, at the depths 2t, 2t + 1 and 2t + 8, 2t + 9
//   right    column g, at the same depths
//   sums     rows g and g + 8, columns 2t and 2t + 1
// Two elements that follow each other along the depth are a word. Slices lie in local memory as
// words of a line, lines side by side, pairs of depths one below the other.
//
// Which row of a tile the units take for which is free, and so it is with columns. An item has
// neighbours, so that it reads several words at once, and stores vectors: row i and row i + 8 of
// all units of a warp are the rows from 2 * i * ROW_UNITS on, and column i of four units that are
// side by side is the four columns from 4 * i on.
#ifdef MATRIX_UNITS

#define PAIRS (DEPTH / 2)
#define WARPS_ACROSS 2
#define WARPS_DOWN 4
// Matrices of a warp, one below the other and side by side.
#define ROW_UNITS (TILE_ROWS / WARPS_DOWN / 16)
#define COLUMN_UNITS (TILE_COLUMNS / WARPS_ACROSS / 8)
// Words of a pair of depths: eight more than there are lines, so that a warp meets all banks.
#define LEFT_WORDS (TILE_ROWS + 8)
#define RIGHT_WORDS (TILE_COLUMNS + 8)
// Words of a slice that an item reads at most.
#define MOST_WORDS 8

// sums += left @ right, of a warp.
static inline void multiply_units(float *sums, const uint *left, const uint *right) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MATRIX_UNITS "." MATRIX_UNITS
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]),
                 "r"(right[1]));
}

static inline uint word_of(ushort first, ushort second) { return first | (uint)second << 16; }

// The words of a slice that an item has: of `lines` lines that there are, and so many depths.
static inline void read_words(uint *words, const __global ushort *from, I way, int item,
                              const int tile_lines, I lines, I depths, I line_stride,
                              I depth_stride) {
#pragma unroll
  for (int e = 0; e < MOST_WORDS; ++e) words[e] = 0;
  if (way == VECTORS) {
    const int line = item % (tile_lines / 8) * 8;
    const int depth = item / (tile_lines / 8) * 2;
    if (depth >= DEPTH || line >= lines) return;
    const __global ushort *at = from + line * line_stride + depth * depth_stride;
    uint4 first = (uint4)(0), second = (uint4)(0);
    if (depth < depths) first = *(const __global uint4 *)at;
    if (depth + 1 < depths) second = *(const __global uint4 *)(at + depth_stride);
    words[0] = (first.x & 0xffff) | second.x << 16;
    words[1] = first.x >> 16 | (second.x & 0xffff0000);
    words[2] = (first.y & 0xffff) | second.y << 16;
    words[3] = first.y >> 16 | (second.y & 0xffff0000);
    words[4] = (first.z & 0xffff) | second.z << 16;
    words[5] = first.z >> 16 | (second.z & 0xffff0000);
    words[6] = (first.w & 0xffff) | second.w << 16;
    words[7] = first.w >> 16 | (second.w & 0xffff0000);
  } else if (way == (VECTORS | ALONG_DEPTH)) {
    const int line = item / 2 % tile_lines;
    const int depth = (item % 2 + item / (2 * tile_lines) * 2) * 8;
    if (line >= lines) return;
    const __global ushort *at = from + line * line_stride + depth;
#pragma unroll
    for (int e = 0; e < tile_lines * DEPTH / 8 / ITEMS; ++e) {
      if (depth + 16 * e < depths) {
        const uint4 four = *(const __global uint4 *)(at + 16 * e);
        words[4 * e] = four.x;
        words[4 * e + 1] = four.y;
        words[4 * e + 2] = four.z;
        words[4 * e + 3] = four.w;
      }
    }
  } else {
    const int line = way == ALONG_DEPTH ? item / PAIRS : item % tile_lines;
    const int depth = (way == ALONG_DEPTH ? item % PAIRS : item / tile_lines) * 2;
    const int next_line = way == ALONG_DEPTH ? ITEMS / PAIRS : 0;
    const int next_depth = way == ALONG_DEPTH ? 0 : ITEMS / tile_lines * 2;
#pragma unroll
    for (int e = 0; e < tile_lines * PAIRS / ITEMS; ++e) {
      const I l = line + e * next_line, d = depth + e * next_depth;
      const __global ushort *at = from + l * line_stride + d * depth_stride;
      ushort first = 0, second = 0;
      if (l < lines && d < depths) first = at[0];
      if (l < lines && d + 1 < depths) second = at[depth_stride];
      words[e] = word_of(first, second);
    }
  }
}

static inline void write_words(const uint *words, __local uint *to, I way, int item,
                               const int tile_lines) {
  const int pitch = tile_lines + 8;
  if (way == VECTORS) {
    const int line = item % (tile_lines / 8) * 8;
    const int pair = item / (tile_lines / 8);
    if (pair >= PAIRS) return;
    __local uint4 *four = (__local uint4 *)(to + pair * pitch + line);
    four[0] = (uint4)(words[0], words[1], words[2], words[3]);
    four[1] = (uint4)(words[4], words[5], words[6], words[7]);
  } else if (way == (VECTORS | ALONG_DEPTH)) {
    const int line = item / 2 % tile_lines;
    const int pair = (item % 2 + item / (2 * tile_lines) * 2) * 4;
#pragma unroll
    for (int e = 0; e < tile_lines * PAIRS / ITEMS; ++e) {
      to[(pair + e / 4 * 8 + e % 4) * pitch + line] = words[e];
    }
  } else {
    const int line = way == ALONG_DEPTH ? item / PAIRS : item % tile_lines;
    const int pair = way == ALONG_DEPTH ? item % PAIRS : item / tile_lines;
    const int next = way == ALONG_DEPTH ? ITEMS / PAIRS : ITEMS / tile_lines * pitch;
#pragma unroll
    for (int e = 0; e < tile_lines * PAIRS / ITEMS; ++e) {
      to[pair * pitch + line + e * next] = words[e];
    }
  }
}

#ifdef IMAGE
static inline ushort image_value(const __global ushort *from, int4 place, const Image *image) {
  const int inside = (uint)place.y < (uint)image->size[0] &&
                     (uint)place.z < (uint)image->size[1] && (uint)place.w < (uint)image->size[2];
  return inside ? from[place.x] : (ushort)0;
}
#endif

GROUP_KERNEL void group_tiles(PARAMETERS) {
  BEGIN
  __local uint4 left_slices[2][PAIRS * LEFT_WORDS / 4];
  __local uint4 right_slices[2][PAIRS * RIGHT_WORDS / 4];
#ifdef IMAGE
  __local int4 column_places[TILE_COLUMNS];
  __local int out_places[TILE_COLUMNS];
  __local int4 depth_places[KEPT];
  __local int left_places[KEPT];
  const Image source = image;
#endif
  const int item = get_local_id(0);
  I rest = get_group_id(0);
  const I column_tiles = (l.columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
  const I first_column = rest % column_tiles * TILE_COLUMNS;
  rest /= column_tiles;
  const I row_tiles = (l.rows + TILE_ROWS - 1) / TILE_ROWS;
  const I first_row = rest % row_tiles * TILE_ROWS;
  rest /= row_tiles;
  const I part = rest % l.parts;
  const I batch = rest / l.parts;
  const I begin = part * l.part;
  const I depth = min(l.depth - begin, l.part);
  const int warp = item / 32;
  const int g = item % 32 / 4, t = item % 4;
  const int down = warp / WARPS_ACROSS * (16 * ROW_UNITS) + g * (2 * ROW_UNITS);
  const int across = warp % WARPS_ACROSS * (8 * COLUMN_UNITS);

  const __global ushort *left_from =
      (const __global ushort *)left + batch * l.left.batch + first_row * l.left.row;
  const __global ushort *right_from = (const __global ushort *)right + batch * l.right.batch;
#ifdef IMAGE
  for (int c = item; c < TILE_COLUMNS; c += ITEMS) {
    int place;
    column_places[c] = image_place(first_column + c, l.columns, &source.columns, &source, &place);
    out_places[c] = place;
  }
  if (item < CHUNK) {
    int place;
    depth_places[item] = image_place(begin + item, l.depth, &source.depth, &source, &place);
    left_places[item] = place;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int left_along = LEFT_WAY & ALONG_DEPTH, right_along = RIGHT_WAY & ALONG_DEPTH;
  const int left_line = left_along ? item / PAIRS : item % TILE_ROWS;
  const int left_pair = left_along ? item % PAIRS : item / TILE_ROWS;
  const int right_line = right_along ? item / PAIRS : item % TILE_COLUMNS;
  const int right_pair = right_along ? item % PAIRS : item / TILE_COLUMNS;
#else
  left_from += begin * l.left.column;
  right_from += first_column * l.right.column + begin * l.right.row;
#endif

  float sums[ROW_UNITS][COLUMN_UNITS][4];
#pragma unroll
  for (int r = 0; r < ROW_UNITS; ++r)
#pragma unroll
    for (int c = 0; c < COLUMN_UNITS; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[r][c][i] = 0;

  // In round k, the slice at k is read, and the one before is multiplied.
  int current = 0;
  for (I k = 0; k < depth + DEPTH; k += DEPTH) {
    uint left_words[MOST_WORDS], right_words[MOST_WORDS];
    if (k < depth) {
#ifdef IMAGE
      const int kept = (int)(k % KEPT);
#pragma unroll
      for (int e = 0; e < TILE_ROWS * PAIRS / ITEMS; ++e) {
        const int line = left_line + (left_along ? e * (ITEMS / PAIRS) : 0);
        const int at = (left_pair + (left_along ? 0 : e * (ITEMS / TILE_ROWS))) * 2;
        ushort first = 0, second = 0;
        if (first_row + line < l.rows) {
          const __global ushort *row = left_from + line * l.left.row;
          if (k + at < depth) first = row[left_places[kept + at]];
          if (k + at + 1 < depth) second = row[left_places[kept + at + 1]];
        }
        left_words[e] = word_of(first, second);
      }
#pragma unroll
      for (int e = 0; e < TILE_COLUMNS * PAIRS / ITEMS; ++e) {
        const int line = right_line + (right_along ? e * (ITEMS / PAIRS) : 0);
        const int at = (right_pair + (right_along ? 0 : e * (ITEMS / TILE_COLUMNS))) * 2;
        const int4 place = column_places[line];
        right_words[e] =
            word_of(image_value(right_from, place + depth_places[kept + at], &source),
                    image_value(right_from, place + depth_places[kept + at + 1], &source));
      }
#else
      read_words(left_words, left_from, LEFT_WAY, item, TILE_ROWS, l.rows - first_row,
                 depth - k, l.left.row, l.left.column);
      read_words(right_words, right_from, RIGHT_WAY, item, TILE_COLUMNS,
                 l.columns - first_column, depth - k, l.right.column, l.right.row);
      left_from += DEPTH * l.left.column;
      right_from += DEPTH * l.right.row;
#endif
    }
    if (k > 0) {
      const __local uint *left_slice = (const __local uint *)left_slices[current] + down;
      const __local uint *right_slice =
          (const __local uint *)right_slices[current] + across + g * 4;
#pragma unroll
      for (int step = 0; step < PAIRS; step += 8) {
        uint rows[2][2 * ROW_UNITS], columns[2][COLUMN_UNITS];
#pragma unroll
        for (int piece = 0; piece < 2; ++piece) {
          const int pair = step + 4 * piece + t;
          const __local uint *row = left_slice + pair * LEFT_WORDS;
#if ROW_UNITS == 2
          vstore4(*(const __local uint4 *)row, 0, rows[piece]);
#else
          vstore2(*(const __local uint2 *)row, 0, rows[piece]);
#endif
          const __local uint4 *column =
              (const __local uint4 *)(right_slice + pair * RIGHT_WORDS);
#pragma unroll
          for (int c = 0; c < COLUMN_UNITS / 4; ++c) vstore4(column[8 * c], c, columns[piece]);
        }
#pragma unroll
        for (int r = 0; r < ROW_UNITS; ++r) {
          const uint fragment[4] = {rows[0][2 * r], rows[0][2 * r + 1], rows[1][2 * r],
                                    rows[1][2 * r + 1]};
#pragma unroll
          for (int c = 0; c < COLUMN_UNITS; ++c) {
            const uint other[2] = {columns[0][c], columns[1][c]};
            multiply_units(sums[r][c], fragment, other);
          }
        }
      }
      current = 1 - current;
    }
#ifdef IMAGE
    // The next chunk of places, while the last slice of this one is not yet read.
    if ((k + 2 * DEPTH) % CHUNK == 0 && item < CHUNK) {
      const int to = (int)((k + 2 * DEPTH) % KEPT) + item;
      int place;
      depth_places[to] =
          image_place(begin + k + 2 * DEPTH + item, l.depth, &source.depth, &source, &place);
      left_places[to] = place;
    }
#endif
    if (k < depth) {
      write_words(left_words, (__local uint *)left_slices[current], LEFT_WAY, item, TILE_ROWS);
      write_words(right_words, (__local uint *)right_slices[current], RIGHT_WAY, item,
                  TILE_COLUMNS);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  // Rows of the item, with vectors of four columns: two of four units, which are their first and
  // their second columns. Through memory, so that sums stay in registers.
  float tile[2 * ROW_UNITS * 2 * COLUMN_UNITS];
#pragma unroll
  for (int r = 0; r < ROW_UNITS; ++r)
#pragma unroll
    for (int c = 0; c < COLUMN_UNITS; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int vector = (2 * r + i / 2) * (COLUMN_UNITS / 2) + c / 4 * 2 + i % 2;
        tile[4 * vector + c % 4] = sums[r][c][i];
      }
  for (int r = 0; r < 2 * ROW_UNITS; ++r) {
    const I row = first_row + down + r;
    if (row >= l.rows) continue;
    for (int c = 0; c < COLUMN_UNITS / 2; ++c) {
      const int in_tile = across + c / 2 * 32 + t * 8 + c % 2 * 4;
      const I column = first_column + in_tile;
      if (column >= l.columns) continue;
      const V sum = VLOAD(r * (COLUMN_UNITS / 2) + c, tile);
      if (l.parts > 1) {
        const I line = (part * l.batches + batch) * l.rows + row;
        VSTORE(sum, line * row_vectors(&layout) + column / W, partials);
        continue;
      }
      I at[W];
#pragma unroll
      for (int i = 0; i < W; ++i) {
#ifdef IMAGE
        const I place = out_places[in_tile + i];
#else
        const I place = (column + i) * l.out.column;
#endif
        at[i] = column + i < l.columns ? batch * l.out.batch + row * l.out.row + place : -1;
      }
      store_sums(FUSED_ADDRESS sum, out, added, at, batch, row, column, &layout, alpha, beta, adds);
    }
  }
}
#endif
