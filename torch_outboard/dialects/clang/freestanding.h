/*
 * Functions that compilers call implicitly, for targets without a C library (-ffreestanding). In C,
 * with current_item.c; one copy of the names per program.
 */
#ifndef OUTBOARD_DIALECT_FREESTANDING_H
#define OUTBOARD_DIALECT_FREESTANDING_H

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
