/* Clock, threads and memory of the host, for drivers in C and C++. */
#ifndef OUTBOARD_DRIVERS_COMMON_SYSTEM_H
#define OUTBOARD_DRIVERS_COMMON_SYSTEM_H

#include <outboard/driver.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Clock and threads ---- */

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t nanoseconds(void);

/* Processors that this process may run on, at least 1. */
int usable_processors(void);

/* Returns what pthread_create returns. The thread blocks all signals: they belong to threads of the
 * application. Linux shows the first 15 characters of the name. */
int start_thread(pthread_t* thread, const char* name, void* (*run)(void* argument), void* argument);

/* A short busy wait for another thread: `while (not_yet && keep_spinning(&waiting))`, initialized
 * to {0}. keep_spinning returns false after 30 microseconds: then sleeping is cheaper. */
typedef struct spin {
  uint64_t start;
  unsigned rounds;
} spin;

bool keep_spinning(spin* waiting);
/* False, the initial value: keep_spinning always returns false. A driver sets it where it has more
 * than one processor and its work often takes less time than waking a thread. */
extern bool may_spin;

/* ---- Memory ---- */

/* `bytes` rounded up to whole pages of the host. */
uint64_t whole_pages(uint64_t bytes);

/* Bytes of an element of a dtype bit. */
static inline uint32_t dtype_bytes(uint32_t dtype) {
  const uint32_t two = OB_DTYPE_INT16 | OB_DTYPE_UINT16 | OB_DTYPE_FLOAT16 | OB_DTYPE_BFLOAT16;
  const uint32_t four = OB_DTYPE_INT32 | OB_DTYPE_UINT32 | OB_DTYPE_FLOAT32;
  const uint32_t eight = OB_DTYPE_INT64 | OB_DTYPE_UINT64 | OB_DTYPE_FLOAT64 | OB_DTYPE_COMPLEX64;
  if (dtype & two) return 2;
  if (dtype & four) return 4;
  if (dtype & eight) return 8;
  return dtype == OB_DTYPE_COMPLEX128 ? 16 : 1;
}

#define HASH_START UINT64_C(0xCBF29CE484222325)

/* FNV-1a over words of 8 bytes instead of single bytes, the last word padded with zeros. Continues
 * `hash`, which begins as HASH_START. */
static inline uint64_t hash_bytes(uint64_t hash, const void* data, uint64_t bytes) {
  for (const char* at = (const char*)data; bytes > 0;) {
    uint64_t word = 0, size = bytes < sizeof word ? bytes : sizeof word;
    memcpy(&word, at, size);
    hash = (hash ^ word) * UINT64_C(0x100000001B3);
    at += size;
    bytes -= size;
  }
  return hash;
}

#ifdef __cplusplus
}
#endif

#endif /* OUTBOARD_DRIVERS_COMMON_SYSTEM_H */
