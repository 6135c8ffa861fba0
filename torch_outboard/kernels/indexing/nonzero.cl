// Indices of nonzero elements in row-major order: counts per block of elements, their prefix sum,
// then writes of each block at its offset.

static inline int ob_is_set(const V v) {
#if OB_COMPLEX
  return v.x != 0 || v.y != 0;
#else
  return v != 0;
#endif
}

// Stores the indices of element `i` as row `row` of the result.
#define STORE_INDICES(row, i)                                                                  \
  ob_index rest = i;                                                                           \
  for (ob_index d = dims - 1; d >= 0; --d) {                                                   \
    const ob_index next = rest / size.at[d];                                                   \
    out[row * out_layout.stride[0] + d * out_layout.stride[1]] = rest - next * size.at[d];     \
    rest = next;                                                                               \
  }

#if OB_LOCAL == 1

__kernel void count_blocks(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(b)
  const ob_index last = min((b + 1) * block, n);
  long count = 0;
  for (ob_index i = b * block; i < last; ++i) count += ob_is_set(self_load(i));
  starts[b + 1] = count;
}

__kernel void add_counts(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(only)
  long total = 0;
  for (ob_index b = 1; b <= blocks; ++b) {
    const long count = starts[b];
    starts[b] = total;
    total += count;
  }
  starts[0] = total;
}

__kernel void write_indices(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(b)
  const ob_index last = min((b + 1) * block, n);
  ob_index to = (ob_index)starts[b + 1];
  for (ob_index i = b * block; i < last; ++i) {
    if (!ob_is_set(self_load(i))) continue;
    STORE_INDICES(to, i)
    ++to;
  }
}

#else

// One work-group per block, in tiles: adjacent work-items load adjacent elements.
#define OB_EACH 4
#define OB_TILE (OB_EACH * OB_LOCAL)
#define OB_WORDS ((OB_TILE + 31) / 32)

__kernel void count_blocks(OB_PARAMETERS) {
  OB_BEGIN
  __local int total[1];
  const ob_index b = get_group_id(0), last = min((b + 1) * block, n);
  if (OB_LANE == 0) atomic_xchg(total, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  int count = 0;
  for (ob_index i = b * block + OB_LANE; i < last; i += OB_LOCAL) count += ob_is_set(self_load(i));
  atomic_add(total, count);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (OB_LANE == 0) starts[b + 1] = total[0];
}

// One work-group; its work-items sum adjacent blocks.
__kernel void add_counts(OB_PARAMETERS) {
  OB_BEGIN
  __local long totals[OB_LOCAL];
  const ob_index run = (blocks + OB_LOCAL - 1) / OB_LOCAL;
  const ob_index begin = min(1 + OB_LANE * run, blocks + 1), end = min(begin + run, blocks + 1);
  long total = 0, before = 0;
  for (ob_index b = begin; b < end; ++b) total += starts[b];
  totals[OB_LANE] = total;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int other = 0; other < (int)OB_LANE; ++other) before += totals[other];
  for (ob_index b = begin; b < end; ++b) {
    const long count = starts[b];
    starts[b] = before;
    before += count;
  }
  if (OB_LANE == OB_LOCAL - 1) starts[0] = before;
}

// Each work-item sets a bit per nonzero element. The number of bits before its own is its offset.
__kernel void write_indices(OB_PARAMETERS) {
  OB_BEGIN
  __local uint marks[OB_WORDS];
  const ob_index b = get_group_id(0), last = min((b + 1) * block, n);
  ob_index to = (ob_index)starts[b + 1];
  for (ob_index first = b * block; first < last; first += OB_TILE) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int word = OB_LANE; word < OB_WORDS; word += OB_LOCAL) marks[word] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int at = OB_LANE; at < OB_TILE; at += OB_LOCAL) {
      if (first + at < last && ob_is_set(self_load(first + at))) {
        atomic_or(marks + at / 32, 1u << (at & 31));
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int at = OB_LANE; at < OB_TILE; at += OB_LOCAL) {
      if ((marks[at / 32] >> (at & 31) & 1) == 0) continue;
      ob_index location = to + popcount(marks[at / 32] & ((1u << (at & 31)) - 1));
      for (int word = 0; word < at / 32; ++word) location += popcount(marks[word]);
      STORE_INDICES(location, first + at)
    }
    for (int word = 0; word < OB_WORDS; ++word) to += popcount(marks[word]);
  }
}

#endif
