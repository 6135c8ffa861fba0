/*
 * The work-item of the calling thread (work_items.h). C, linked with every program:
 *
 *   clang ... -x cl PROGRAM -x c current_item.c
 *
 * Targets without threads, or with a copy of the program per thread, leave OB_DIALECT_THREADS
 * undefined.
 */
typedef struct {
  unsigned long global_size[3], global_id[3], global_offset[3];
  unsigned dimensions;
} ob_work_item;

#ifdef OB_DIALECT_THREADS
static __thread ob_work_item current;
#else
static ob_work_item current;
#endif

__attribute__((const, visibility("hidden"))) ob_work_item* ob_current_item(void);

ob_work_item* ob_current_item(void) { return &current; }

#if !__STDC_HOSTED__ && !defined(OB_DIALECT_THREADS)
#include "freestanding.h"
#endif
