/* The thread pool of launches, shared by all queues. While one launch uses it, others run on their
 * queue's worker alone. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"

/* Nanoseconds of a piece after which spread_helpers pays. */
enum { LONG_PIECE = 20000 };

static struct {
  pthread_mutex_t busy; /* held by the launch that uses the pool */
  int helpers;
  bool started;
  pthread_t threads[MAX_THREADS];
  /* The job. Pieces from `next` on are free. Written by the holder of `busy` while `inside` is 0
   * and `open` is false. */
  void (*run)(void* argument, uint64_t piece, int thread);
  void* argument;
  uint64_t pieces;
  _Alignas(64) _Atomic uint64_t next;
  _Alignas(64) atomic_bool open;
  atomic_int inside;             /* helpers that may read the job */
  _Alignas(64) atomic_uint jobs; /* number of jobs so far; helpers sleep on it */
  atomic_int sleeping;
  atomic_bool stopping;
  atomic_int
      processors[MAX_THREADS]; /* of each helper at the start of its latest job; -1: asleep */
  atomic_bool moved[MAX_THREADS];
  cpu_set_t allowed[MAX_THREADS]; /* the normal affinity of a moved helper */
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER};

/* Linux may leave a woken thread queued behind another for milliseconds beside an idle processor.
 * Helpers that sleep or share a processor after the first piece of long work are restricted to the
 * processors without a thread of the pool, until their next job. */
static void spread_helpers(void) {
  cpu_set_t taken;
  int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE) return;
  CPU_ZERO(&taken);
  CPU_SET(here, &taken);
  bool stuck[MAX_THREADS];
  for (int i = 0; i < pool.helpers; i++) {
    int processor = atomic_load(&pool.processors[i]);
    stuck[i] = processor < 0 || CPU_ISSET(processor, &taken);
    if (!stuck[i]) CPU_SET(processor, &taken);
  }
  for (int i = 0; i < pool.helpers; i++) {
    cpu_set_t free_ones;
    if (!stuck[i] || atomic_load(&pool.moved[i]) ||
        pthread_getaffinity_np(pool.threads[i], sizeof free_ones, &free_ones) != 0) {
      continue;
    }
    pool.allowed[i] = free_ones;
    for (int processor = 0; processor < CPU_SETSIZE; processor++) {
      if (CPU_ISSET(processor, &taken)) CPU_CLR(processor, &free_ones);
    }
    if (CPU_COUNT(&free_ones) == 0) continue;
    pthread_setaffinity_np(pool.threads[i], sizeof free_ones, &free_ones);
    atomic_store(&pool.moved[i], true);
  }
}

static void take_pieces(int thread) {
  uint64_t start = thread == 0 ? nanoseconds() : 0;
  for (uint64_t piece; (piece = atomic_fetch_add(&pool.next, 1)) < pool.pieces; start = 0) {
    pool.run(pool.argument, piece, thread);
    if (start != 0 && nanoseconds() - start > LONG_PIECE) spread_helpers();
  }
}

static void* help(void* argument) {
  int thread = (int)(intptr_t)argument;
  unsigned seen = 0;
  for (;;) {
    spin waiting = {0};
    while (atomic_load(&pool.jobs) == seen && keep_spinning(&waiting)) {
    }
    if (atomic_load(&pool.jobs) == seen) {
      atomic_fetch_add(&pool.sleeping, 1);
      atomic_store(&pool.processors[thread - 1], -1);
      /* Returns at once if the number has changed. */
      syscall(SYS_futex, &pool.jobs, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
      atomic_fetch_sub(&pool.sleeping, 1);
    }
    if (atomic_load(&pool.moved[thread - 1])) {
      cpu_set_t* allowed = &pool.allowed[thread - 1];
      pthread_setaffinity_np(pthread_self(), sizeof *allowed, allowed);
      atomic_store(&pool.moved[thread - 1], false);
    }
    atomic_store(&pool.processors[thread - 1], sched_getcpu());
    if (atomic_load(&pool.stopping)) return NULL;
    seen = atomic_load(&pool.jobs);
    /* `inside` first, then `open`: share_work clears `open` first, then reads `inside`. */
    atomic_fetch_add(&pool.inside, 1);
    if (atomic_load(&pool.open)) take_pieces(thread);
    atomic_fetch_sub(&pool.inside, 1);
  }
}

/* Called with the first shared work. Fewer threads than requested also do it. */
static void start_helpers(void) {
  pool.started = true;
  for (int i = 0; i < host_settings.threads - 1; i++) {
    if (start_thread(&pool.threads[i], "outboard_pool", help, (void*)(intptr_t)(i + 1)) != 0) break;
    pool.helpers++;
  }
}

bool share_work(void (*run)(void* argument, uint64_t piece, int thread), void* argument,
                uint64_t pieces) {
  if (host_settings.threads == 1 || pthread_mutex_trylock(&pool.busy) != 0) return false;
  if (!pool.started) start_helpers();
  if (pool.helpers == 0 || atomic_load(&pool.stopping)) {
    pthread_mutex_unlock(&pool.busy);
    return false;
  }
  pool.run = run;
  pool.argument = argument;
  pool.pieces = pieces;
  atomic_store(&pool.next, 0);
  atomic_store(&pool.open, true);
  atomic_fetch_add(&pool.jobs, 1);
  if (atomic_load(&pool.sleeping) > 0) {
    syscall(SYS_futex, &pool.jobs, FUTEX_WAKE_PRIVATE,
            (int)(pieces < MAX_THREADS ? pieces - 1 : MAX_THREADS), NULL, NULL, 0);
  }
  take_pieces(0);
  atomic_store(&pool.open, false);
  spin waiting = {0};
  while (atomic_load(&pool.inside) > 0) {
    if (!keep_spinning(&waiting)) sched_yield();
  }
  pthread_mutex_unlock(&pool.busy);
  return true;
}

void stop_pool(void) {
  pthread_mutex_lock(&pool.busy);
  bool first = !atomic_exchange(&pool.stopping, true);
  atomic_fetch_add(&pool.jobs, 1);
  syscall(SYS_futex, &pool.jobs, FUTEX_WAKE_PRIVATE, MAX_THREADS, NULL, NULL, 0);
  for (int i = 0; first && i < pool.helpers; i++) pthread_join(pool.threads[i], NULL);
  pthread_mutex_unlock(&pool.busy);
}
