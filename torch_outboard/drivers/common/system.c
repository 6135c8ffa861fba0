#define _GNU_SOURCE
#include "system.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- Settings ---- */

const char* read_text(const char* variable) {
  const char* text = getenv(variable);
  return text == NULL || *text == '\0' ? NULL : text;
}

bool read_number(const char* variable, uint64_t smallest, uint64_t largest, uint64_t* value,
                 char* problem, size_t room) {
  const char* text = read_text(variable);
  if (text == NULL) return true;
  errno = 0;
  unsigned long long number = strtoull(text, NULL, 10);
  if (strspn(text, "0123456789") == strlen(text) && errno == 0 && number >= smallest &&
      number <= largest) {
    *value = number;
    return true;
  }
  snprintf(problem, room, "%s=%.100s is not a whole number from %llu to %llu.", variable, text,
           (unsigned long long)smallest, (unsigned long long)largest);
  return false;
}

bool read_choice(const char* variable, const char* const* choices, const char** value,
                 char* problem, size_t room) {
  const char* text = read_text(variable);
  if (text == NULL) return true;
  int used = snprintf(problem, room, "%s=%.100s is none of ", variable, text);
  for (size_t i = 0; choices[i] != NULL; i++) {
    if (strcmp(text, choices[i]) == 0) {
      *value = choices[i];
      return true;
    }
    if (used >= 0 && (size_t)used < room) {
      used += snprintf(problem + used, room - (size_t)used, "%s%s", i == 0 ? "" : ", ", choices[i]);
    }
  }
  return false;
}

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

/* ---- Python packages ---- */

const char* own_path(void) {
  Dl_info own;
  return dladdr((void*)&own_path, &own) == 0 || own.dli_fname == NULL ? "" : own.dli_fname;
}

typedef struct visitor {
  bool (*visit)(const char* folder, void* argument);
  void* argument;
} visitor;

/* Visits the folder that ends `part` characters behind the start of the last `name` in a path;
 * false if `name` does not occur. */
static bool visit_folder(const char* path, const char* name, size_t part, const visitor* with) {
  const char* end = NULL;
  for (const char* found = path; (found = strstr(found, name)) != NULL; found++) end = found + part;
  char folder[PATH_MAX];
  if (end == NULL || end - path >= PATH_MAX) return false;
  snprintf(folder, sizeof folder, "%.*s", (int)(end - path), path);
  return with->visit(folder, with->argument);
}

static int visit_library(struct dl_phdr_info* info, size_t bytes, void* argument) {
  (void)bytes;
  const char* path = info->dlpi_name == NULL ? "" : info->dlpi_name;
  return visit_folder(path, "/site-packages/", strlen("/site-packages"), argument) ||
         visit_folder(path, "/dist-packages/", strlen("/dist-packages"), argument);
}

bool visit_package_folders(bool (*visit)(const char* folder, void* argument), void* argument) {
  visitor with = {visit, argument};
  return visit_folder(own_path(), "/torch_outboard/drivers/", 0, &with) ||
         dl_iterate_phdr(visit_library, &with) != 0;
}
