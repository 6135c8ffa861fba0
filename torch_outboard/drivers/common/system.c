#define _GNU_SOURCE
#include "system.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* ---- Clock and threads ---- */

/* Busy wait before a thread sleeps: waking it costs the thread with the work a few microseconds. */
enum { SPIN_NANOSECONDS = 30000 };

bool may_spin;

uint64_t nanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int usable_processors(void) {
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                          : (int)sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : count;
}

int start_thread(pthread_t* thread, const char* name, void* (*run)(void* argument),
                 void* argument) {
  char short_name[16];
  snprintf(short_name, sizeof short_name, "%s", name);
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  int error = pthread_create(thread, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &previous, NULL);
  if (error == 0) pthread_setname_np(*thread, short_name);
  return error;
}

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

bool keep_spinning(spin* waiting) {
  if (!may_spin) return false;
  relax();
  if (++waiting->rounds % 64 != 1) return true;
  uint64_t now = nanoseconds();
  if (waiting->start == 0) waiting->start = now;
  return now - waiting->start < SPIN_NANOSECONDS;
}

/* ---- Memory ---- */

uint64_t whole_pages(uint64_t bytes) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}
