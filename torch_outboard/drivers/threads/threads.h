/* Threads and the clock, for drivers in C and C++. */
#ifndef OUTBOARD_DRIVERS_THREADS_H
#define OUTBOARD_DRIVERS_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of CLOCK_MONOTONIC. */
uint64_t nanoseconds(void);

/* Processors that this process may run on, at least 1. */
int usable_processors(void);

/* Answers like pthread_create. The thread blocks all signals: they belong to threads of the
 * application. Linux shows the first 15 characters of the name. */
int start_thread(pthread_t* thread, const char* name, void* (*run)(void* argument), void* argument);

/* A short wait for another thread, `while (not_yet && keep_spinning(&waiting))`. False when it
 * would be better to sleep. Begins as {0}. */
typedef struct spin {
  uint64_t start;
  unsigned rounds;
} spin;

bool keep_spinning(spin* waiting);
/* False from the start: no wait spins. Set by a driver that has more than one processor and whose
 * work is often shorter than waking a thread. */
extern bool may_spin;

#ifdef __cplusplus
}
#endif

#endif /* OUTBOARD_DRIVERS_THREADS_H */
