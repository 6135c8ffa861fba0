/*
 * Entries of kernels: for each __kernel of a program, the builder appends a plain C function that
 * runs a part of the work-items.
 *
 * 1. Preprocess the program, with opencl.h:
 *        clang <target> -E -x cl -cl-std=CL1.2 -cl-no-stdinc <options> -include opencl.h PROGRAM
 *    The only address space left is __constant; __kernel (or kernel) precedes each kernel.
 * 2. For each kernel NAME(TYPE0 a, TYPE1 b ...), TYPE being the source before a parameter, append
 *    OB_ENTRY_BEGIN(NAME) NAME(OB_ARGUMENT(0, TYPE0), OB_ARGUMENT(1, TYPE1) ...); OB_ENTRY_END
 * 3. Compile it with this file before it:
 *        clang <target> -x cl -cl-std=CL1.2 -cl-no-stdinc <options> -include entry.h TEXT
 *    and link current_item.c with it.
 *
 * The program then has a C function per kernel:
 *        void ob_entry_NAME(const ob_range *range, void *const *arguments);
 * language/work_items.h has ob_range. arguments[i] points to the bytes of argument i: a value, a
 * struct, or an address. (For a __local pointer it is the address of memory that no other thread
 * uses during the call.) Several threads may call it at once with parts of a launch.
 */
#ifndef OUTBOARD_DIALECT_ENTRY_H
#define OUTBOARD_DIALECT_ENTRY_H

/* Kernels are file-local functions: one copy, in the loop of the entry. */
#define __kernel static __attribute__((always_inline))
#define kernel __kernel
#define reqd_work_group_size(...)
#define work_group_size_hint(...)
#define vec_type_hint(...)

#define OB_ARGUMENT(i, ...) (*(__typeof__(__VA_ARGS__)*)ob_arguments[i])

#define OB_ENTRY_BEGIN(name)                                                               \
  void ob_entry_##name(const ob_range* ob_part, void* const* ob_arguments);                \
  __attribute__((visibility("default"))) void ob_entry_##name(const ob_range* ob_part,     \
                                                              void* const* ob_arguments) { \
    ob_work_item* const ob_item = ob_current_item();                                       \
    for (int ob_d = 0; ob_d < 3; ++ob_d) {                                                 \
      ob_item->global_size[ob_d] = ob_part->global_size[ob_d];                             \
      ob_item->global_offset[ob_d] = ob_part->global_offset[ob_d];                         \
    }                                                                                      \
    ob_item->dimensions = (uint)ob_part->dimensions;                                       \
    for (ulong ob_z = ob_part->first[2]; ob_z < ob_part->last[2]; ++ob_z) {                \
      for (ulong ob_y = ob_part->first[1]; ob_y < ob_part->last[1]; ++ob_y) {              \
        for (ulong ob_x = ob_part->first[0]; ob_x < ob_part->last[0]; ++ob_x) {            \
          ob_item->global_id[0] = ob_x;                                                    \
          ob_item->global_id[1] = ob_y;                                                    \
          ob_item->global_id[2] = ob_z;

#define OB_ENTRY_END \
  }                  \
  }                  \
  }                  \
  }

#endif
