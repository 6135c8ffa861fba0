/*
 * Work-item functions: get_global_id and the like. Work-groups have one work-item, so local ids are
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

#endif
