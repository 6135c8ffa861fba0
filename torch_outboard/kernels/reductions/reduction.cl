// Kernels of reductions. ops/sources/reduction.py writes state, functions and macros before them.
//
// Dimension 0 of the reduced and of the kept ones has the smallest stride.

// Merges all lanes by halves: a chain of merges would take as long as many steps.
static inline state_one merged_lanes(const state_wide *s) {
  state_one lanes[OB_WIDTH];
  for (uint k = 0; k < OB_WIDTH; ++k) lanes[k] = lane_of_wide(s, k);
  for (uint left = OB_WIDTH / 2; left > 0; left /= 2) {
    for (uint k = 0; k < left; ++k) merge_one(&lanes[k], &lanes[k + left]);
  }
  return lanes[0];
}

typedef struct {
  OB_INDEX reduced_size[OB_DIMENSIONS];
  OB_INDEX reduced_stride[OB_DIMENSIONS];
  OB_INDEX kept_size[OB_DIMENSIONS];
  OB_INDEX kept_stride[OB_DIMENSIONS];
  OB_INDEX output[2][OB_DIMENSIONS];
  OB_INDEX reduced_dimensions;
  OB_INDEX kept_dimensions;
  OB_INDEX n;          // elements of one result
  OB_INDEX results;
  OB_INDEX parts;      // of a result
  OB_INDEX part_size;  // elements per part
} ob_layout;

static inline OB_INDEX kept_offset(const OB_INDEX *stride, OB_INDEX k, const ob_layout *layout) {
  OB_INDEX offset = 0;
  for (uint d = 0; d < layout->kept_dimensions; ++d) {
    const OB_INDEX rest = k / layout->kept_size[d];
    offset += (k - rest * layout->kept_size[d]) * stride[d];
    k = rest;
  }
  return offset;
}

// Offset in the dimensions above dimension 0.
static inline OB_INDEX reduced_offset(OB_INDEX k, const ob_layout *layout) {
  OB_INDEX offset = 0;
  for (uint d = 1; d < layout->reduced_dimensions; ++d) {
    const OB_INDEX rest = k / layout->reduced_size[d];
    offset += (k - rest * layout->reduced_size[d]) * layout->reduced_stride[d];
    k = rest;
  }
  return offset;
}

#define OB_KERNEL(name)                                                                      \
  __kernel void name(OB_POINTER(OB_INPUT, in) OB_POINTERS, OB_POINTER(state_one, partial),   \
                     const ob_layout layout OB_PARAMETERS)
#define OB_BEGIN OB_BIND(OB_INPUT, in) OB_BINDS OB_BIND(state_one, partial)

// A run of at most `most` elements of one result from element j on, up to `end`: `run` elements,
// the first at index `at`. Blocks of runs limit rounding errors.
#define OB_RUN(start, most)                                                                      \
  const OB_INDEX rest = j / layout.reduced_size[0], first = j - rest * layout.reduced_size[0];   \
  const OB_INDEX run =                                                                           \
      min(min(end - j, layout.reduced_size[0] - first), (OB_INDEX)(most));                       \
  const OB_INDEX at = (start) + first * stride + reduced_offset(rest, &layout);

#define OB_COUNT_ELEMENTS          \
  const OB_INDEX n = layout.n;     \
  OB_COUNT
#define OB_END(k, part, s)                           \
  if (layout.parts == 1) {                           \
    OB_WRITE                                         \
  } else {                                           \
    partial[(k) * layout.parts + (part)] = s;        \
  }

// Accumulates `count` adjacent elements into `total`; the first has the index `first`. Sums are in
// blocks of blocks to limit rounding errors.
static inline void contiguous(state_one *total, __global const OB_INPUT *in, const OB_INDEX at,
                              const OB_INDEX count, const OB_INDEX first OB_PARAMETERS) {
  OB_INDEX j = 0;
  if (count >= OB_WIDTH) {
    const index_wide lanes = OB_LANES;
    state_wide all;
    initial_wide(&all);
    while (count - j >= 4 * OB_WIDTH) {
      state_wide some;
      initial_wide(&some);
      for (uint block = 0; block < 32 && count - j >= 4 * OB_WIDTH; ++block) {
        const OB_INDEX left = (count - j) / (4 * OB_WIDTH);
        const OB_INDEX stop = j + min(left, (OB_INDEX)32) * (4 * OB_WIDTH);
        state_wide s0, s1, s2, s3;
        initial_wide(&s0);
        initial_wide(&s1);
        initial_wide(&s2);
        initial_wide(&s3);
        for (; j < stop; j += 4 * OB_WIDTH) {
          const index_wide i = (index_wide)((int)(first + j)) + lanes;
          step_wide(&s0, load_wide(in, at + j), i OB_ARGUMENTS);
          step_wide(&s1, load_wide(in, at + j + OB_WIDTH), i + OB_WIDTH OB_ARGUMENTS);
          step_wide(&s2, load_wide(in, at + j + 2 * OB_WIDTH), i + 2 * OB_WIDTH OB_ARGUMENTS);
          step_wide(&s3, load_wide(in, at + j + 3 * OB_WIDTH), i + 3 * OB_WIDTH OB_ARGUMENTS);
        }
        merge_wide(&s0, &s1);
        merge_wide(&s2, &s3);
        merge_wide(&s0, &s2);
        merge_wide(&some, &s0);
      }
      merge_wide(&all, &some);
    }
    for (; count - j >= OB_WIDTH; j += OB_WIDTH) {
      step_wide(&all, load_wide(in, at + j), (index_wide)((int)(first + j)) + lanes OB_ARGUMENTS);
    }
    const state_one one = merged_lanes(&all);
    merge_one(total, &one);
  }
  for (; j < count; ++j) step_one(total, load_one(in, at + j), (int)(first + j) OB_ARGUMENTS);
}

// One work-item per result and part.
OB_KERNEL(along) {
  OB_BEGIN
  const OB_INDEX item = get_global_id(0);
  if (item >= layout.results * layout.parts) return;
  const OB_INDEX k = item / layout.parts;
  const OB_INDEX part = item - k * layout.parts;
  OB_INDEX j = part * layout.part_size;
  const OB_INDEX end = min(layout.n, j + layout.part_size);
  const OB_INDEX base = kept_offset(layout.kept_stride, k, &layout);
  const OB_INDEX stride = layout.reduced_stride[0];
  state_one s;
  initial_one(&s);
  while (j < end) {
    OB_RUN(base, stride == 1 ? layout.n : 256)
    if (stride == 1) {
      contiguous(&s, in, at, run, j OB_ARGUMENTS);
    } else {
      state_one t;
      initial_one(&t);
      for (OB_INDEX q = 0; q < run; ++q) {
        step_one(&t, load_one(in, at + q * stride), (int)(j + q) OB_ARGUMENTS);
      }
      merge_one(&s, &t);
    }
    j += run;
  }
  OB_COUNT_ELEMENTS
  OB_END(k, part, s)
}

// One work-item per part and some adjacent results, whose elements are adjacent, too.
OB_KERNEL(across) {
  OB_BEGIN
  const OB_INDEX columns = OB_COLUMNS * OB_WIDTH;
  const OB_INDEX groups = (layout.kept_size[0] + columns - 1) / columns;
  const OB_INDEX rows = layout.results / layout.kept_size[0];
  const OB_INDEX item = get_global_id(0);
  if (item >= rows * groups * layout.parts) return;
  const OB_INDEX group_and_row = item / layout.parts;
  const OB_INDEX part = item - group_and_row * layout.parts;
  const OB_INDEX row = group_and_row / groups;
  const OB_INDEX column = (group_and_row - row * groups) * columns;
  const OB_INDEX count = min(columns, layout.kept_size[0] - column);
  const OB_INDEX first_k = row * layout.kept_size[0] + column;
  const OB_INDEX base = kept_offset(layout.kept_stride, first_k, &layout);
  const OB_INDEX begin = part * layout.part_size;
  const OB_INDEX end = min(layout.n, begin + layout.part_size);
  const OB_INDEX stride = layout.reduced_stride[0];
  OB_COUNT_ELEMENTS
  OB_INDEX done = 0;
  while (done < count) {
    // All columns at once, else by vector, then by element.
    const bool whole = count == columns;
    const bool vector = count - done >= OB_WIDTH;
    state_wide all[OB_COLUMNS];
    state_one single;
    initial_one(&single);
    for (uint u = 0; u < OB_COLUMNS; ++u) initial_wide(&all[u]);
    for (OB_INDEX j = begin; j < end;) {
      OB_RUN(base + done, 256)
      if (whole) {
        state_wide t[OB_COLUMNS];
#pragma unroll
        for (uint u = 0; u < OB_COLUMNS; ++u) initial_wide(&t[u]);
        for (OB_INDEX q = 0; q < run; ++q) {
#pragma unroll
          for (uint u = 0; u < OB_COLUMNS; ++u) {
            step_wide(&t[u], load_wide(in, at + q * stride + u * OB_WIDTH),
                      (index_wide)((int)(j + q)) OB_ARGUMENTS);
          }
        }
#pragma unroll
        for (uint u = 0; u < OB_COLUMNS; ++u) merge_wide(&all[u], &t[u]);
      } else if (vector) {
        state_wide t;
        initial_wide(&t);
        for (OB_INDEX q = 0; q < run; ++q) {
          step_wide(&t, load_wide(in, at + q * stride), (index_wide)((int)(j + q)) OB_ARGUMENTS);
        }
        merge_wide(&all[0], &t);
      } else {
        state_one t;
        initial_one(&t);
        for (OB_INDEX q = 0; q < run; ++q) {
          step_one(&t, load_one(in, at + q * stride), (int)(j + q) OB_ARGUMENTS);
        }
        merge_one(&single, &t);
      }
      j += run;
    }
    const OB_INDEX finished = whole ? columns : vector ? OB_WIDTH : 1;
    for (OB_INDEX c = 0; c < finished; ++c) {
      const OB_INDEX k = first_k + done + c;
      const state_one s = finished > 1 || OB_WIDTH == 1 && vector
                              ? lane_of_wide(&all[c / OB_WIDTH], c % OB_WIDTH)
                              : single;
      OB_END(k, part, s)
    }
    done += finished;
  }
}

// One work-item per result, over its parts.
OB_KERNEL(combine) {
  OB_BEGIN
  const OB_INDEX k = get_global_id(0);
  if (k >= layout.results) return;
  state_one s;
  initial_one(&s);
  for (OB_INDEX part = 0; part < layout.parts;) {
    // Blocks, as above.
    const OB_INDEX stop = min(part + 16, layout.parts);
    state_one some = partial[k * layout.parts + part];
    for (++part; part < stop; ++part) {
      const state_one t = partial[k * layout.parts + part];
      merge_one(&some, &t);
    }
    merge_one(&s, &some);
  }
  OB_COUNT_ELEMENTS
  OB_WRITE
}

#if OB_LOCAL > 1

// Merges the states of a work-group's work-items pairwise in local memory.
static inline state_one of_group(const state_one mine, __local state_one *scratch) {
  const uint lane = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  scratch[lane] = mine;
  // Groups may have any size, not only powers of two.
  for (uint count = OB_LOCAL, kept = (OB_LOCAL + 1) / 2; count > 1;
       count = kept, kept = (kept + 1) / 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < count - kept) {
      state_one a = scratch[lane];
      const state_one b = scratch[lane + kept];
      merge_one(&a, &b);
      scratch[lane] = a;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return scratch[0];
}

// One work-group per result and part: adjacent work-items load adjacent elements.
OB_KERNEL(along_group) {
  OB_BEGIN
  __local state_one scratch[OB_LOCAL];
  const OB_INDEX item = get_group_id(0);
  const OB_INDEX k = item / layout.parts;
  const OB_INDEX part = item - k * layout.parts;
  OB_INDEX j = part * layout.part_size;
  const OB_INDEX end = min(layout.n, j + layout.part_size);
  const OB_INDEX base = kept_offset(layout.kept_stride, k, &layout);
  const OB_INDEX stride = layout.reduced_stride[0];
  const OB_INDEX lane = get_local_id(0);
  state_one mine;
  initial_one(&mine);
  while (j < end) {
    OB_RUN(base, 64 * OB_LOCAL * OB_WIDTH)
    state_one t;
    initial_one(&t);
    OB_INDEX q = lane;
#if OB_WIDTH > 1
    if (stride == 1 && run >= OB_LOCAL * OB_WIDTH) {
      const OB_INDEX vectors = run / OB_WIDTH;
      state_wide wide;
      initial_wide(&wide);
      for (OB_INDEX v = lane; v < vectors; v += OB_LOCAL) {
        const index_wide i = (index_wide)((int)(j + v * OB_WIDTH)) + OB_LANES;
        step_wide(&wide, load_wide(in, at + v * OB_WIDTH), i OB_ARGUMENTS);
      }
      const state_one one = merged_lanes(&wide);
      merge_one(&t, &one);
      q += vectors * OB_WIDTH;
    }
#endif
    for (; q < run; q += OB_LOCAL) {
      step_one(&t, load_one(in, at + q * stride), (int)(j + q) OB_ARGUMENTS);
    }
    merge_one(&mine, &t);
    j += run;
  }
  const state_one s = of_group(mine, scratch);
  if (lane != 0) return;
  OB_COUNT_ELEMENTS
  OB_END(k, part, s)
}

// One work-group per result, over its parts.
OB_KERNEL(combine_group) {
  OB_BEGIN
  __local state_one scratch[OB_LOCAL];
  const OB_INDEX k = get_group_id(0);
  state_one mine;
  initial_one(&mine);
  for (OB_INDEX part = get_local_id(0); part < layout.parts; part += OB_LOCAL) {
    const state_one t = partial[k * layout.parts + part];
    merge_one(&mine, &t);
  }
  const state_one s = of_group(mine, scratch);
  if (get_local_id(0) != 0) return;
  OB_COUNT_ELEMENTS
  OB_WRITE
}

// One work-group per part and tile of adjacent results, whose elements are adjacent, too. Adjacent
// work-items load adjacent vectors of a row; slices of the group share the rows.
static inline OB_INDEX tile_lanes(const ob_layout *layout) {
  // Few rows leave no work for slices.
  const OB_INDEX most = layout->n < 64 || OB_LOCAL < 32 ? OB_LOCAL : 32;
  OB_INDEX lanes = 1;
  while (lanes < most && lanes * OB_WIDTH < layout->kept_size[0]) lanes *= 2;
  return min(lanes, most);
}

// Merges the states of a group's slices pairwise into the first one.
#define OB_MERGE_SLICES(scratch, slices, slice, lanes, states)                           \
  for (OB_INDEX count = slices, kept = (slices + 1) / 2; count > 1;                      \
       count = kept, kept = (kept + 1) / 2) {                                            \
    barrier(CLK_LOCAL_MEM_FENCE);                                                        \
    if (slice < count - kept) {                                                          \
      for (uint c = 0; c < states; ++c) {                                                \
        state_one a = scratch[c * OB_LOCAL + get_local_id(0)];                           \
        const state_one b = scratch[c * OB_LOCAL + get_local_id(0) + kept * lanes];      \
        merge_one(&a, &b);                                                               \
        scratch[c * OB_LOCAL + get_local_id(0)] = a;                                     \
      }                                                                                  \
    }                                                                                    \
  }

OB_KERNEL(across_group) {
  OB_BEGIN
  __local state_one scratch[OB_WIDTH * OB_LOCAL];
  const OB_INDEX lanes = tile_lanes(&layout);
  const OB_INDEX slices = OB_LOCAL / lanes;
  const OB_INDEX slice = get_local_id(0) / lanes;
  const OB_INDEX tiles = (layout.kept_size[0] + lanes * OB_WIDTH - 1) / (lanes * OB_WIDTH);
  const OB_INDEX tiles_and_rows = layout.results / layout.kept_size[0] * tiles;
  // Groups that run together have adjacent tiles.
  const OB_INDEX part = get_group_id(0) / tiles_and_rows;
  const OB_INDEX tile_and_row = get_group_id(0) - part * tiles_and_rows;
  const OB_INDEX row = tile_and_row / tiles;
  const OB_INDEX column =
      ((tile_and_row - row * tiles) * lanes + get_local_id(0) - slice * lanes) * OB_WIDTH;
  const OB_INDEX count =
      column < layout.kept_size[0] ? min((OB_INDEX)OB_WIDTH, layout.kept_size[0] - column) : 0;
  const OB_INDEX first_k = row * layout.kept_size[0] + column;
  const OB_INDEX base = kept_offset(layout.kept_stride, row * layout.kept_size[0], &layout) + column;
  const OB_INDEX end = min(layout.n, (part + 1) * layout.part_size);
  const OB_INDEX stride = layout.reduced_stride[0];
  state_wide all;
  initial_wide(&all);
  state_one single[OB_WIDTH];
  for (uint c = 0; c < OB_WIDTH; ++c) initial_one(&single[c]);
  for (OB_INDEX j = part * layout.part_size; j < end && slice < slices;) {
    OB_RUN(base, 256 * slices)
    if (count == OB_WIDTH) {
      state_wide t;
      initial_wide(&t);
#pragma unroll 4
      for (OB_INDEX q = slice; q < run; q += slices) {
        step_wide(&t, load_wide(in, at + q * stride), (index_wide)((int)(j + q)) OB_ARGUMENTS);
      }
      merge_wide(&all, &t);
    } else {
      for (uint c = 0; c < count; ++c) {
        state_one t;
        initial_one(&t);
        for (OB_INDEX q = slice; q < run; q += slices) {
          step_one(&t, load_one(in, at + q * stride + c), (int)(j + q) OB_ARGUMENTS);
        }
        merge_one(&single[c], &t);
      }
    }
    j += run;
  }
  for (uint c = 0; c < OB_WIDTH; ++c) {
    scratch[c * OB_LOCAL + get_local_id(0)] = count == OB_WIDTH ? lane_of_wide(&all, c) : single[c];
  }
  OB_MERGE_SLICES(scratch, slices, slice, lanes, OB_WIDTH)
  if (slice > 0) return;
  OB_COUNT_ELEMENTS
  for (uint c = 0; c < count; ++c) {
    const OB_INDEX k = first_k + c;
    const state_one s = scratch[c * OB_LOCAL + get_local_id(0)];
    if (layout.parts == 1) {
      OB_WRITE
    } else {
      partial[part * layout.results + k] = s;  // contiguous for combine_across
    }
  }
}

// One work-group per set of adjacent results, over their parts.
OB_KERNEL(combine_across) {
  OB_BEGIN
  __local state_one scratch[OB_LOCAL];
  const OB_INDEX lanes = min(32, OB_LOCAL);
  const OB_INDEX slices = OB_LOCAL / lanes;
  const OB_INDEX slice = get_local_id(0) / lanes;
  const OB_INDEX k = get_group_id(0) * lanes + get_local_id(0) - slice * lanes;
  state_one mine;
  initial_one(&mine);
  if (k < layout.results && slice < slices) {
#pragma unroll 4
    for (OB_INDEX part = slice; part < layout.parts; part += slices) {
      const state_one t = partial[part * layout.results + k];
      merge_one(&mine, &t);
    }
  }
  scratch[get_local_id(0)] = mine;
  OB_MERGE_SLICES(scratch, slices, slice, lanes, 1)
  if (slice > 0 || k >= layout.results) return;
  const state_one s = scratch[get_local_id(0)];
  OB_COUNT_ELEMENTS
  OB_WRITE
}

#endif
