// Macros and functions for kernel templates. Before this source the kernel generator
// (csrc/device_kernels/template/template.h) defines for each tensor x of the definition:
//
//   OB_REPORT            a statement: an index is out of range (definitions that report); see
//                        ob_checked_index and ob_wrapped_index below
//   HAS_x, IF_x(text)    1 if the tensor is given; `text` if it is, else nothing
//   x_t, x_value         its elements in memory, and as values (float for half, uchar for bool)
//   x_load(i)            element i as a value; x_store(i, v) writes one
//   x_load_vector(i)     W elements from i on, as T; x_store_vector(i, v)  (with vectors)
//   x_layout             sizes and strides, if declared strided; others are dense and row-major
//   OB_VLOAD(p)          W values at an address; OB_VSTORE(v, p) stores them
//   OB_SUM(v), OB_MAX(v) the sum and the maximum of the elements of such a vector
//
// V is the type of values (float2 for complex ones), S that of their real parts, T a vector of W
// values, M the mask type of such vectors, R float, or double if values are double; ob_index is int
// or long. Functions of the table of scalar functions have the prefix ob_ and take T. C(x) is a
// constant T. If elements are only moved, V is an unsigned integer of their size. Example:
//
//   __kernel void example(OB_PARAMETERS) {
//     OB_BEGIN
//     OB_ITEM(i)                       // one work-item per element
//     out_store(i, self_load(i));
//   }
//
//   __kernel void example_of_groups(OB_PARAMETERS) {
//     OB_BEGIN
//     OB_SCRATCH(S)                    // local memory for OB_LOCAL values
//     OB_FOR_GROUPS(row) {             // a work-group loops over rows
//       S total = 0;
//       for (ob_index i = OB_LANE; i < n; i += OB_LOCAL) total += self_load(row * n + i);
//       total = OB_GROUP_SUM(total);   // in every work-item
//     }
//   }

// Before loops over private arrays that must stay in registers on a GPU. Other compilers unroll on
// their own. PoCL takes long for unrolled loops, and computes some of them wrong.
#ifdef OB_NVIDIA
#define OB_UNROLL _Pragma("unroll")
#else
#define OB_UNROLL
#endif

#define OB_ITEM(i)                     \
  const ob_index i = get_global_id(0); \
  if (i >= ob_items) return;

// CPU: consecutive items per work-item, since distant memory is slow.
#if OB_LOCAL == 1
#define OB_FOR_GROUPS(g)                                                                  \
  for (ob_index ob_part_of_##g = (ob_items + (ob_index)get_num_groups(0) - 1) /           \
                                 (ob_index)get_num_groups(0),                             \
                g = (ob_index)get_group_id(0) * ob_part_of_##g,                           \
                ob_end_of_##g = min(g + ob_part_of_##g, ob_items);                        \
       g < ob_end_of_##g; ++g)
#else
#define OB_FOR_GROUPS(g) \
  for (ob_index g = get_group_id(0); g < ob_items; g += get_num_groups(0))
#endif

// CPU: a work-group is one work-item, which does all the work.
#if OB_LOCAL == 1
#define OB_LANE 0
#define OB_SCRATCH(type)
#define OB_BARRIER
#define OB_GROUP_SUM(v) (v)
#define OB_GROUP_MAX(v) (v)
#define OB_GROUP_MIN(v) (v)
#else
#define OB_LANE ((ob_index)get_local_id(0))
#define OB_SCRATCH(type) __local type ob_scratch[OB_LOCAL];
#define OB_BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
// Group reductions are computed by few work-items, then by all: barriers take longer than some
// extra steps. A group may have any size, not only powers of two.
#define OB_FEW (OB_LOCAL < 16 ? OB_LOCAL : 16)
#define OB_DEFINE_GROUP(name, type, both)                                   \
  static inline type name(const type mine, __local type *scratch) {         \
    const uint lane = get_local_id(0);                                      \
    barrier(CLK_LOCAL_MEM_FENCE);                                           \
    scratch[lane] = mine;                                                   \
    barrier(CLK_LOCAL_MEM_FENCE);                                           \
    if (lane < OB_FEW) {                                                    \
      type a = mine;                                                        \
      for (uint other = lane + OB_FEW; other < OB_LOCAL; other += OB_FEW) { \
        const type b = scratch[other];                                      \
        a = both;                                                           \
      }                                                                     \
      scratch[lane] = a;                                                    \
    }                                                                       \
    barrier(CLK_LOCAL_MEM_FENCE);                                           \
    type a = scratch[0];                                                    \
    for (uint other = 1; other < OB_FEW; ++other) {                         \
      const type b = scratch[other];                                        \
      a = both;                                                             \
    }                                                                       \
    return a;                                                               \
  }
// The maximum and minimum are NaN if a value is NaN.
OB_DEFINE_GROUP(ob_group_sum, V, a + b)
#define OB_GROUP_SUM(v) ob_group_sum(v, ob_scratch)
OB_DEFINE_GROUP(ob_group_max, V, (a > b || a != a) ? a : b)
OB_DEFINE_GROUP(ob_group_min, V, (a < b || a != a) ? a : b)
#define OB_GROUP_MAX(v) ob_group_max(v, ob_scratch)
#define OB_GROUP_MIN(v) ob_group_min(v, ob_scratch)
#endif

// Moves `count` adjacent elements: STORE(i, LOAD(i)) for each. A work-item of a GPU loads several,
// a group apart, before the first store, since loads do not pass a store that may alias.
#if OB_LOCAL == 1
#define OB_MOVE_ROW(type, count, LOAD, STORE) \
  for (ob_index i = 0; i < (count); ++i) STORE(i, LOAD(i));
#else
#define OB_MOVE_ROW(type, count, LOAD, STORE)                                                  \
  for (ob_index ob_first = OB_LANE; ob_first < (count); ob_first += 4 * OB_LOCAL) {            \
    type ob_held[4];                                                                           \
    const ob_index ob_left = ((count) - ob_first + OB_LOCAL - 1) / OB_LOCAL;                   \
    if (ob_left >= 4) {                                                                        \
      OB_UNROLL for (int k = 0; k < 4; ++k) ob_held[k] = LOAD((ob_first + k * OB_LOCAL));      \
      OB_UNROLL for (int k = 0; k < 4; ++k) STORE((ob_first + k * OB_LOCAL), ob_held[k]);      \
    } else {                                                                                   \
      for (int k = 0; k < ob_left; ++k) {                                                      \
        STORE((ob_first + k * OB_LOCAL), LOAD((ob_first + k * OB_LOCAL)));                     \
      }                                                                                        \
    }                                                                                          \
  }
#endif

// A value of an index tensor as an index below n, or -1. It is checked as loaded: ob_index may have
// only 32 of its 64 bits.
static inline ob_index ob_checked_index(const long given, const ob_index n) {
  return given >= 0 && given < n ? (ob_index)given : -1;
}
// Negative values count from the end.
static inline ob_index ob_wrapped_index(const long given, const ob_index n) {
  return ob_checked_index(given < 0 ? given + n : given, n);
}

// Offset of line `line` along dimension `dim` in a strided tensor; lines are counted in row-major
// order of the other dimensions.
static inline ob_index ob_line(const ob_layout layout, const ob_index dim, ob_index line) {
  ob_index offset = 0;
  for (ob_index d = layout.dims - 1; d >= 0; --d) {
    if (d == dim) continue;
    const ob_index rest = line / layout.size[d];
    offset += (line - rest * layout.size[d]) * layout.stride[d];
    line = rest;
  }
  return offset;
}

// Offset of element i, in row-major order, in a strided tensor.
static inline ob_index ob_offset_of(const ob_layout layout, const ob_index i) {
  return ob_line(layout, -1, i);
}
