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
/*
 * Functions that compilers call implicitly, for targets without a C library (-ffreestanding); one
 * copy of the names per program.
 */
#define OB_LIBRARY_FUNCTION __attribute__((visibility("hidden"), used))

OB_LIBRARY_FUNCTION void* memcpy(void* restrict to, const void* restrict from,
                                 __SIZE_TYPE__ bytes) {
  unsigned char* out = to;
  const unsigned char* in = from;
  if ((((__UINTPTR_TYPE__)to | (__UINTPTR_TYPE__)from) & 7) == 0) {
    for (; bytes >= 8; bytes -= 8, out += 8, in += 8) {
      __builtin_memcpy_inline(out, in, 8);
    }
  }
  for (; bytes > 0; --bytes) *out++ = *in++;
  return to;
}

OB_LIBRARY_FUNCTION void* memmove(void* to, const void* from, __SIZE_TYPE__ bytes) {
  if ((__UINTPTR_TYPE__)to <= (__UINTPTR_TYPE__)from) {
    unsigned char* out = to;
    for (const unsigned char* in = from; bytes > 0; --bytes) *out++ = *in++;
  } else {
    while (bytes > 0) {
      --bytes;
      ((unsigned char*)to)[bytes] = ((const unsigned char*)from)[bytes];
    }
  }
  return to;
}

OB_LIBRARY_FUNCTION void* memset(void* to, int value, __SIZE_TYPE__ bytes) {
  unsigned char* out = to;
  const unsigned long word = 0x0101010101010101UL * (unsigned char)value;
  if (((__UINTPTR_TYPE__)to & 7) == 0) {
    for (; bytes >= 8; bytes -= 8, out += 8) __builtin_memcpy_inline(out, &word, 8);
  }
  for (; bytes > 0; --bytes) *out++ = (unsigned char)value;
  return to;
}
#endif
