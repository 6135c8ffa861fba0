/*
 * Work-item, synchronization and atomic functions. Work-groups have one work-item, so local ids are
 * 0 and the group id is the work-item's.
 */
#ifndef OUTBOARD_DIALECT_WORK_ITEMS_H
#define OUTBOARD_DIALECT_WORK_ITEMS_H

typedef struct {
  ulong global_size[3]; /* work-items of the launch in each dimension */
  ulong global_id[3];
  ulong global_offset[3]; /* id of the first work-item of the launch */
  uint dimensions;        /* 1 to 3 */
} ob_work_item;

/* The part of a launch in one call of an entry (entry.h). */
typedef struct {
  ulong first[3], last[3]; /* first <= id < last */
  ulong global_size[3];    /* of the launch; 1 in missing dimensions */
  ulong global_offset[3];
  ulong dimensions;
} ob_range;

/*
 * The work-item of the calling thread. OpenCL C has no thread-local variables, so it is in
 * current_item.c, in C. Its address is constant per thread, hence `const`.
 */
__attribute__((const)) ob_work_item* ob_current_item(void);

OB_FUNCTION uint get_work_dim(void) { return ob_current_item()->dimensions; }
OB_FUNCTION size_t get_global_id(uint d) { return d < 3 ? ob_current_item()->global_id[d] : 0; }
OB_FUNCTION size_t get_global_size(uint d) { return d < 3 ? ob_current_item()->global_size[d] : 1; }
OB_FUNCTION size_t get_global_offset(uint d) {
  return d < 3 ? ob_current_item()->global_offset[d] : 0;
}
OB_FUNCTION size_t get_group_id(uint d) { return get_global_id(d) - get_global_offset(d); }
OB_FUNCTION size_t get_num_groups(uint d) { return get_global_size(d); }
OB_FUNCTION size_t get_local_id(uint d) { return 0; }
OB_FUNCTION size_t get_local_size(uint d) { return 1; }
OB_FUNCTION size_t get_enqueued_local_size(uint d) { return 1; }
OB_FUNCTION size_t get_local_linear_id(void) { return 0; }
OB_FUNCTION size_t get_global_linear_id(void) {
  return (get_group_id(2) * get_global_size(1) + get_group_id(1)) * get_global_size(0) +
         get_group_id(0);
}

/* No-op: a work-item is alone in its group. */
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
typedef uint cl_mem_fence_flags;

OB_FUNCTION void mem_fence(cl_mem_fence_flags flags) { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
OB_FUNCTION void read_mem_fence(cl_mem_fence_flags flags) {
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
}
OB_FUNCTION void write_mem_fence(cl_mem_fence_flags flags) {
  __atomic_thread_fence(__ATOMIC_RELEASE);
}
OB_FUNCTION void barrier(cl_mem_fence_flags flags) { __atomic_signal_fence(__ATOMIC_ACQ_REL); }

OB_FUNCTION void prefetch(const void* address, size_t elements) { __builtin_prefetch(address); }

/* ---- Atomic functions of OpenCL C 1.2, and their old names; relaxed, as in OpenCL ---- */

/* Names: atomic_* for 32 bits; atom_* also for 64 bits (cl_khr_int64_base_atomics). */
#define OB_ATOMIC_NAMES(T, PREFIX)                                                         \
  OB_FUNCTION T PREFIX##add(volatile T* p, T v) { return __atomic_fetch_add(p, v, 0); }    \
  OB_FUNCTION T PREFIX##sub(volatile T* p, T v) { return __atomic_fetch_sub(p, v, 0); }    \
  OB_FUNCTION T PREFIX## and (volatile T * p, T v) { return __atomic_fetch_and(p, v, 0); } \
  OB_FUNCTION T PREFIX## or (volatile T * p, T v) { return __atomic_fetch_or(p, v, 0); }   \
  OB_FUNCTION T PREFIX## xor (volatile T * p, T v) {                                       \
    return __atomic_fetch_xor(p, v, 0);                                                    \
  } OB_FUNCTION T PREFIX##inc(volatile T* p) {                                             \
    return __atomic_fetch_add(p, (T)1, 0);                                                 \
  }                                                                                        \
  OB_FUNCTION T PREFIX##dec(volatile T* p) { return __atomic_fetch_sub(p, (T)1, 0); }      \
  OB_FUNCTION T PREFIX##xchg(volatile T* p, T v) { return __atomic_exchange_n(p, v, 0); }  \
  OB_FUNCTION T PREFIX##cmpxchg(volatile T* p, T expected, T desired) {                    \
    __atomic_compare_exchange_n(p, &expected, desired, 0, 0, 0);                           \
    return expected;                                                                       \
  }                                                                                        \
  OB_FUNCTION T PREFIX##min(volatile T* p, T v) {                                          \
    T old = __atomic_load_n(p, 0);                                                         \
    while (v < old && !__atomic_compare_exchange_n(p, &old, v, 0, 0, 0)) {                 \
    }                                                                                      \
    return old;                                                                            \
  }                                                                                        \
  OB_FUNCTION T PREFIX##max(volatile T* p, T v) {                                          \
    T old = __atomic_load_n(p, 0);                                                         \
    while (old < v && !__atomic_compare_exchange_n(p, &old, v, 0, 0, 0)) {                 \
    }                                                                                      \
    return old;                                                                            \
  }
#define OB_ATOMIC(T) OB_ATOMIC_NAMES(T, atomic_) OB_ATOMIC_NAMES(T, atom_)
OB_ATOMIC(int)
OB_ATOMIC(uint)
OB_ATOMIC(long)
OB_ATOMIC(ulong)

OB_FUNCTION float atomic_xchg(volatile float* p, float v) {
  return __builtin_astype(atomic_xchg((volatile uint*)p, __builtin_astype(v, uint)), float);
}

#endif
