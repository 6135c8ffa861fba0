// Instructions for matrix products of 16-bit floating point with sums in float32, and an emulation.
//
// Instructions and fragments are those of the PTX manual, from compute capability 8.0 on:
// mma.m16n8k16, ldmatrix and cp.async. A warp is 32 work-items that run together. Work-item i of a
// warp, with g = i / 4 and t = i % 4, has these fragments:
//   left     rows g and g + 8, K indices 2t, 2t + 1 and 2t + 8, 2t + 9
//   right    column g, the same K indices
//   sums     rows g and g + 8, columns 2t and 2t + 1
// The emulation runs on any OpenCL device, so tests need no GPU. Work-items exchange data through
// UNIT_SCRATCH; every work-item of a group has to call it.
//
// Compute capability 9.0 has wgmma: four warps, a warpgroup, multiply operands in local memory. PTX
// has it only for the target sm_90a, and NVIDIA's OpenCL compiles for sm_90: the driver compiles
// the PTX again for sm_90a, without ONLY_SM_90A's instruction.
//
// Used with MATRIX_UNITS: the generator defines it as "f16" or "bf16", UNIT_ITEMS, the work-group
// size, and, for warpgroups, WARPGROUP_SUMS and WARPGROUP_OPERANDS: "%0, %1 ..." and a work-item's
// sums.

#ifdef OB_NVIDIA

typedef uint LocalAddress;
#define UNIT_SCRATCH
#define LOCAL_ADDRESS(p) ((uint)(size_t)(p))
#define UNIT_UNROLL _Pragma("unroll")

// Copies 16 bytes from global to local memory: `bytes` are read, the others are zero.
#define COPY_ASYNC(to, from, bytes)                            \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" \
               :                                               \
               : "r"(to), "l"((ulong)(from)), "r"(bytes)       \
               : "memory")
#define COMMIT_COPIES asm volatile("cp.async.commit_group;" : : : "memory")
// Waits until at most `groups`, a literal, of the committed copies are in flight.
#define WAIT_FOR_COPIES(groups) asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory")

// Four matrices of 8 x 8; this work-item passes the address of one row.
#define LOAD_MATRICES(to, from)                                                        \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"      \
               : "=r"((to)[0]), "=r"((to)[1]), "=r"((to)[2]), "=r"((to)[3])            \
               : "r"(from)                                                             \
               : "memory")
#define LOAD_TRANSPOSED(to, from)                                                       \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" \
               : "=r"((to)[0]), "=r"((to)[1]), "=r"((to)[2]), "=r"((to)[3])             \
               : "r"(from)                                                              \
               : "memory")

// sums (16 x 8) += left (16 x 16) @ right (16 x 8)
#define MULTIPLY_ADD(sums, left, right0, right1)                                                \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." MATRIX_UNITS "." MATRIX_UNITS                    \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                    \
      : "+f"((sums)[0]), "+f"((sums)[1]), "+f"((sums)[2]), "+f"((sums)[3])                      \
      : "r"((left)[0]), "r"((left)[1]), "r"((left)[2]), "r"((left)[3]), "r"(right0), "r"(right1))

// `to` = the float `value` of the work-item of the warp whose number differs in the bits of `mask`.
#define SHUFFLE_XOR(to, value, mask)                              \
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" \
               : "=f"(to)                                         \
               : "f"(value), "n"(mask))
// Stores a unit from registers to local memory.
#define STORE_UNIT(to, unit)                                                         \
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"                            \
               :                                                                     \
               : "r"(to), "r"((unit).x), "r"((unit).y), "r"((unit).z), "r"((unit).w) \
               : "memory")

// The condition is uniform in a warp: other warps may skip the instructions.
#define WARP_IF(condition) if (condition)

// Two floats, rounded to nearest even, as two elements.
static inline uint rounded_pair(float first, float second) {
  uint pair;
  asm("cvt.rn." MATRIX_UNITS "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
// 2^x within 2 ulp.
static inline float power_of_two(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

#ifdef WARPGROUPS
#define ONLY_SM_90A "//sm_90a "
#define SM_90A(instruction) asm volatile(ONLY_SM_90A instruction : : : "memory")
// Makes copies visible to wgmma.
#define SHOW_COPIES asm volatile("fence.proxy.async.shared::cta;" : : : "memory")
#define WARPGROUP_ARRIVE SM_90A("wgmma.fence.sync.aligned;")
#define WARPGROUP_COMMIT SM_90A("wgmma.commit_group.sync.aligned;")
#define WARPGROUP_WAIT(groups) SM_90A("wgmma.wait_group.sync.aligned " #groups ";")

// PTX's matrix descriptor of 16 K indices from `depth` on: start of a slice, strides of its parts
// in 16 bytes; swizzling by 128 bytes.
static inline ulong descriptor(const int access, LocalAddress slice, const int depth) {
  const ulong along = 64ul << 32 | 1ul << 16 | 1ul << 62;
  const ulong lines = 64ul << 32 | (ulong)(UNIT_DEPTH * 8) << 16 | 1ul << 62;
  const LocalAddress at = slice + (access & ALONG_DEPTH ? depth * 2 : depth * 128);
  return (access & ALONG_DEPTH ? along : lines) | (at & 0x3ffff) >> 4;
}
#if LEFT_ACCESS & 1
#define LEFT_TRANSPOSED "0, "
#else
#define LEFT_TRANSPOSED "1, "
#endif
#if RIGHT_ACCESS & 1
#define RIGHT_TRANSPOSED "0;"
#else
#define RIGHT_TRANSPOSED "1;"
#endif
// sums (64 x UNIT_COLUMNS) += left (64 x 16) @ right (16 x UNIT_COLUMNS)
#define WARPGROUP_MULTIPLY(sums, left_access, left, left_depth, right_access, right, right_depth) \
  asm volatile(ONLY_SM_90A "wgmma.mma_async.sync.aligned.m64n" WARPGROUP_COLUMNS "k16.f32."       \
               MATRIX_UNITS "." MATRIX_UNITS " {" WARPGROUP_SUMS "}, " WARPGROUP_DESCRIPTORS      \
               ", 1, 1, 1, " LEFT_TRANSPOSED RIGHT_TRANSPOSED                                     \
               : WARPGROUP_OPERANDS(sums)                                                         \
               : "l"(descriptor(left_access, left, left_depth)),                                  \
                 "l"(descriptor(right_access, right, right_depth))                                \
               : "memory")
#endif

#else

#define FRAGMENT_WORDS 6  // per work-item: four of the left operand, and two of the right one
typedef size_t LocalAddress;
// Inlined, because PoCL's compiler loses local-memory addresses passed as arguments.
#define EMULATION static __attribute__((always_inline))
#define UNIT_SCRATCH                          \
  __local ulong unit_addresses[UNIT_ITEMS];   \
  __local uint unit_words[UNIT_ITEMS * FRAGMENT_WORDS];
#define LOCAL_ADDRESS(p) ((size_t)(p))
#define UNIT_UNROLL

EMULATION void copy_bytes(LocalAddress to, const __global void *from, int bytes) {
  __local uchar *bytes_to = (__local uchar *)to;
  for (int i = 0; i < 16; ++i) {
    bytes_to[i] = i < bytes ? ((const __global uchar *)from)[i] : (uchar)0;
  }
}
#define COPY_ASYNC(to, from, bytes) copy_bytes(to, from, bytes)
#define COMMIT_COPIES
#define WAIT_FOR_COPIES(groups)

EMULATION void load_matrices(uint *to, int transposed, const __local ulong *addresses) {
  const int item = get_local_id(0);
  const int g = item % 32 / 4, t = item % 4;
  for (int m = 0; m < 4; ++m) {
    const __local ulong *rows = addresses + item / 32 * 32 + 8 * m;
    if (transposed) {
      const ushort first = ((const __local ushort *)(size_t)rows[2 * t])[g];
      const ushort second = ((const __local ushort *)(size_t)rows[2 * t + 1])[g];
      to[m] = first | (uint)second << 16;
    } else {
      to[m] = ((const __local uint *)(size_t)rows[g])[t];
    }
  }
}
// A macro, because PoCL's compiler crashes on barriers inside functions.
#define EXCHANGE(write, read)    \
  write;                         \
  barrier(CLK_LOCAL_MEM_FENCE);  \
  read;                          \
  barrier(CLK_LOCAL_MEM_FENCE)
#define LOAD_MATRICES(to, from) \
  EXCHANGE(unit_addresses[get_local_id(0)] = from, load_matrices(to, 0, unit_addresses))
#define LOAD_TRANSPOSED(to, from) \
  EXCHANGE(unit_addresses[get_local_id(0)] = from, load_matrices(to, 1, unit_addresses))

static inline float unit_value(uint word, int high) {
  const ushort bits = high ? word >> 16 : word & 0xffff;
#ifdef UNIT_BFLOAT16
  return as_float((uint)bits << 16);
#else
  const uint sign = (uint)(bits & 0x8000) << 16, rest = (uint)(bits & 0x7fff) << 13;
  if (rest >= 0x7c00 << 13) return as_float(sign | 0x70000000 | rest);  // infinity or NaN
  return as_float(sign | as_uint(as_float(rest) * 0x1p112f));
#endif
}

EMULATION float4 multiply_add(float4 before, const __local uint *words) {
  const int item = get_local_id(0);
  const int g = item % 32 / 4, t = item % 4;
  const __local uint *warp = words + item / 32 * 32 * FRAGMENT_WORDS;
  float sums[4] = {before.x, before.y, before.z, before.w};
  for (int i = 0; i < 4; ++i) {
    const int row = i / 2, column = 2 * t + i % 2;
    for (int k = 0; k < 16; ++k) {
      const int at = k / 2 % 4, later = k / 8;
      const float a = unit_value(warp[(4 * g + at) * FRAGMENT_WORDS + 2 * later + row], k % 2);
      const float b = unit_value(warp[(4 * column + at) * FRAGMENT_WORDS + 4 + later], k % 2);
      sums[i] = fma(a, b, sums[i]);
    }
  }
  return (float4)(sums[0], sums[1], sums[2], sums[3]);
}
#define MULTIPLY_ADD(sums, left, right0, right1)                                               \
  {                                                                                            \
    __local uint *words = unit_words + get_local_id(0) * FRAGMENT_WORDS;                       \
    EXCHANGE(vstore4((uint4)((left)[0], (left)[1], (left)[2], (left)[3]), 0, words);           \
             vstore2((uint2)(right0, right1), 2, words),                                       \
             vstore4(multiply_add(vload4(0, sums), unit_words), 0, sums));                     \
  }

#define SHUFFLE_XOR(to, value, mask)                            \
  EXCHANGE(unit_words[get_local_id(0)] = as_uint(value),        \
           to = as_float(unit_words[get_local_id(0) ^ (mask)]))
#define WARP_IF(condition) if (1)  // barriers need all work-items of the group
#define STORE_UNIT(to, unit) vstore4(unit, 0, (__local uint *)(to))

static inline uint rounded_bits(float x) {
#ifdef UNIT_BFLOAT16
  const uint bits = as_uint(x);
  return x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#else
  ushort bits;
  vstore_half_rte(x, 0, (half *)&bits);
  return bits;
#endif
}
static inline uint rounded_pair(float first, float second) {
  return rounded_bits(first) | rounded_bits(second) << 16;
}
#define power_of_two(x) exp2(x)

#ifdef WARPGROUPS
#define SHOW_COPIES
#define WARPGROUP_ARRIVE
#define WARPGROUP_COMMIT
#define WARPGROUP_WAIT(groups)
// An element of a slice with lines of 128 bytes: units are swizzled in blocks of 1024 bytes.
EMULATION float slice_value(const int along, LocalAddress slice, int line, int depth) {
  const int at = along ? line * 128 + depth * 2
                       : line / 64 * (UNIT_DEPTH * 128) + depth * 128 + line % 64 * 2;
  return unit_value(*(const __local ushort *)(slice + (at ^ at / 128 % 8 * 16)), 0);
}
EMULATION float warpgroup_sum(float sum, const int left_along, LocalAddress left, int row,
                              const int right_along, LocalAddress right, int column, int depth) {
  for (int k = depth; k < depth + 16; ++k) {
    sum = fma(slice_value(left_along, left, row, k), slice_value(right_along, right, column, k),
              sum);
  }
  return sum;
}
#define WARPGROUP_MULTIPLY(sums, left_access, left, left_depth, right_access, right, right_depth) \
  for (int c = 0; c < 2 * COLUMN_BLOCKS; ++c) {                                                   \
    for (int i = 0; i < 4; ++i) {                                                                 \
      const int lane = get_local_id(0) % 32, row = get_local_id(0) % 128 / 32 * 16 + lane / 4;    \
      sums[c][i] = warpgroup_sum(sums[c][i], (left_access) & ALONG_DEPTH, left, row + i / 2 * 8,  \
                                 (right_access) & ALONG_DEPTH, right,                             \
                                 c * 8 + lane % 4 * 2 + i % 2, left_depth);                       \
    }                                                                                             \
  }
#endif

#endif
