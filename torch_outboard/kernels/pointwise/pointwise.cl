// Kernels of pointwise operators. ops/sources/pointwise.py writes the functions and macros before
// them; docs/kernels.md shows an example.
//
//   OB_PARAMETERS, OB_BEGIN   parameters of operands; their pointers, uniform operands and scalars
//   OB_COMPUTE(at, step, n)   computes n elements; at(p): first index of the operand with pointer
//                             p; step(p): distance between indices
//   OB_FOR_POINTERS(f)        f(p) for each pointer
//   OB_FOR_READS(f)           f(i, p, element) for each non-uniform input in memory
//   OB_END                    sets the flag if an element requested it
//   OB_CHUNK, OB_WIDTH        elements of a work-item; lanes of a vector
//   OB_ADJACENT               1 on GPUs: adjacent work-items access adjacent vectors

#if OB_CALLS == 0
typedef struct {
  OB_INDEX size[OB_DIMENSIONS];
  OB_INDEX stride[OB_DIMENSIONS][OB_POINTER_COUNT];
} ob_layout;

// Offsets of all operands: of `first` elements of dimension 0, then of those of dimension d.
#define OB_START(p) OB_INDEX o##p = first * layout.stride[0][p];
#define OB_ADVANCE(p) o##p += index * layout.stride[d][p];
#define OB_STRIDE(p) layout.stride[0][p]
#endif

#if OB_CROSSED

// A work-group computes a tile of dimension 0, contiguous in outputs, and of dimension `across`.
// Inputs contiguous along `across` are loaded to local memory in that order.
#define OB_START_TILE(p) \
  OB_INDEX o##p = first * layout.stride[0][p] + first_across * layout.stride[across][p];
#define OB_TILE_OF(i, p, element)                   \
  __local element tile##i[OB_TILE * (OB_TILE + 1)]; \
  const bool crossed##i = layout.stride[across][p] == 1 && layout.stride[0][p] > 1;
#define OB_TAKE(i, p, element)                                        \
  if (crossed##i) {                                                   \
    ob_take##i(in##i, o##p + x * layout.stride[0][p] + y,             \
               tile##i + x * (OB_TILE + 1) + y);                      \
  }
#define OB_OF_TILE(p) o##p + x * layout.stride[0][p] + y * layout.stride[across][p]

__kernel void crossed(OB_PARAMETERS, ob_layout layout, uint dimensions, uint across, OB_INDEX total) {
  OB_BEGIN
  OB_FOR_READS(OB_TILE_OF)
  const OB_INDEX tiles = (layout.size[0] + OB_TILE - 1) / OB_TILE;
  const OB_INDEX tiles_across = (layout.size[across] + OB_TILE - 1) / OB_TILE;
  OB_INDEX rest = get_group_id(0);
  const OB_INDEX first = rest % tiles * OB_TILE;
  rest /= tiles;
  const OB_INDEX first_across = rest % tiles_across * OB_TILE;
  rest /= tiles_across;
  OB_FOR_POINTERS(OB_START_TILE)
  for (uint d = 1; d < dimensions; ++d) {
    if (d == across) continue;
    const OB_INDEX quotient = rest / layout.size[d];
    const OB_INDEX index = rest - quotient * layout.size[d];
    rest = quotient;
    OB_FOR_POINTERS(OB_ADVANCE)
  }
  const uint wide = min((OB_INDEX)OB_TILE, layout.size[0] - first);
  const uint high = min((OB_INDEX)OB_TILE, layout.size[across] - first_across);
  for (uint e = get_local_id(0); e < OB_TILE * OB_TILE; e += get_local_size(0)) {
    const uint x = e / OB_TILE, y = e % OB_TILE;
    if (x >= wide || y >= high) continue;
    OB_FOR_READS(OB_TAKE)
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint e = get_local_id(0); e < OB_TILE * OB_TILE / OB_WIDTH; e += get_local_size(0)) {
    const uint x = e % (OB_TILE / OB_WIDTH) * OB_WIDTH, y = e / (OB_TILE / OB_WIDTH);
    if (x >= wide || y >= high) continue;
    const uint count = min((uint)OB_WIDTH, wide - x);
    OB_COMPUTE(OB_OF_TILE, OB_STRIDE, count)
  }
}

#else

#define OB_SAME(p) i
#define OB_ONE(p) 1
// Elements i to `end`; the remainder that fills no vector is last.
#if OB_WIDTH > 1
#define OB_COMPUTE_REST                    \
  if (i < end) {                           \
    const uint rest = end - i;             \
    OB_COMPUTE(OB_SAME, OB_ONE, rest)      \
  }
#else
#define OB_COMPUTE_REST
#endif
#define OB_COMPUTE_CHUNK                                       \
  const OB_INDEX end = total - i < OB_CHUNK ? total : i + OB_CHUNK; \
  for (; end - i >= OB_WIDTH; i += OB_WIDTH) {                 \
    OB_COMPUTE(OB_SAME, OB_ONE, OB_WIDTH)                      \
  }                                                            \
  OB_COMPUTE_REST

#if OB_CALLS > 0

// Contiguous operands of several calls: a work-group computes a part of one call.
__kernel void many(OB_PARAMETERS OB_FLAG_PARAMETER) {
  OB_BIND_CALLS
  OB_SELECT_CALL
  OB_BIND_IN_PLACE
  OB_BEGIN
  for (uint part = 0; part < OB_PARTS; ++part) {
    const uint item = (group * OB_PARTS + part) * (uint)get_local_size(0) + (uint)get_local_id(0);
    OB_INDEX i = item * OB_CHUNK;
    if (i >= total) break;
    OB_COMPUTE_CHUNK
  }
  OB_END
}

#else

__kernel void contiguous(OB_PARAMETERS, OB_INDEX total OB_FLAG_PARAMETER) {
  OB_BEGIN
  OB_INDEX i = (OB_INDEX)get_global_id(0) * OB_CHUNK;
  if (i >= total) return;
  OB_COMPUTE_CHUNK
  OB_END
}

#define OB_OF_RUN(p) o##p + j * layout.stride[0][p]

__kernel void strided(OB_PARAMETERS, ob_layout layout, uint dimensions,
                      OB_INDEX total OB_FLAG_PARAMETER) {
  OB_BEGIN
  OB_INDEX i = (OB_INDEX)get_global_id(0) * OB_CHUNK;
  if (i >= total) return;
  const OB_INDEX end = total - i < OB_CHUNK ? total : i + OB_CHUNK;
  while (i < end) {
    OB_INDEX rest = i / layout.size[0];
    const OB_INDEX first = i - rest * layout.size[0];
    OB_FOR_POINTERS(OB_START)
    for (uint d = 1; d < dimensions; ++d) {
      const OB_INDEX quotient = rest / layout.size[d];
      const OB_INDEX index = rest - quotient * layout.size[d];
      rest = quotient;
      OB_FOR_POINTERS(OB_ADVANCE)
    }
    const OB_INDEX run = min(end - i, layout.size[0] - first);
    for (OB_INDEX j = 0; j < run; j += OB_WIDTH) {
      const uint count = min((OB_INDEX)OB_WIDTH, run - j);
      OB_COMPUTE(OB_OF_RUN, OB_STRIDE, count)
    }
    i += run;
  }
  OB_END
}

#endif
#endif
