/* Launches: kernels run by one thread, or in parts by several. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"

/* ---- The thread pool, shared by all queues. While one launch uses it, others run on their queue's
 * worker alone. ---- */

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

/* Calls run(argument, piece, thread) once for each piece in [0, pieces), on the caller, which is
 * thread 0, and on the threads of the pool. Returns after the last piece. False, without any call,
 * while another launch uses the pool. */
static bool share_work(void (*run)(void* argument, uint64_t piece, int thread), void* argument,
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

/* ---- Launches ---- */

/* Time of a launch on one thread. A shorter one runs in the calling thread if the queue is idle;
 * one of SHARED_NANOSECONDS or more is shared by the pool. */
enum { SHORT_NANOSECONDS = 4000, SHARED_NANOSECONDS = 8000 };
/* A shared launch has several parts for each thread, so that an interrupted thread does not delay
 * all. A part takes PART_NANOSECONDS or more, and about LONGEST_PART nanoseconds at most. */
enum { PARTS_OF_THREAD = 4, PART_NANOSECONDS = 2000, LONGEST_PART = 100000 };
/* The alignment of OpenCL C's largest vector, double16. */
enum { LARGEST_ALIGNMENT = 128 };

/* An argument that points to local memory: its index, and its offset in each thread's memory. */
typedef struct local_argument {
  uint32_t index, offset;
} local_argument;

typedef struct launched {
  task task; /* of queues and graphs */
  ob_kernel kernel;
  item_range items;
  uint32_t signature; /* hash of sizes and values; never 0 */
  uint32_t argument_count, local_count;
  local_argument* locals;
  uint64_t local_bytes;
  char* local_memory; /* of all threads; NULL: none */
  void* arguments[];  /* pointers to the values, which follow this array and `locals` */
} launched;

/* ---- How long launches take ---- */

/* The slot of a launch in its kernel's times. A kernel may be short with some sizes and long with
 * others, so slots are indexed by the signature. Lower half: nanoseconds of the latest launch on
 * one thread; upper half: its signature. */
static _Atomic uint64_t* time_slot(const launched* work) {
  return &work->kernel->times[work->signature % KERNEL_TIMES];
}

/* UINT32_MAX: unknown. */
static uint32_t expected_nanoseconds(const launched* work) {
  uint64_t known = atomic_load_explicit(time_slot(work), memory_order_relaxed);
  return known >> 32 == work->signature ? (uint32_t)known : UINT32_MAX;
}

static void note_nanoseconds(const launched* work, uint64_t time) {
  uint64_t stored = time < UINT32_MAX ? time : UINT32_MAX - 1;
  atomic_store_explicit(time_slot(work), (uint64_t)work->signature << 32 | stored,
                        memory_order_relaxed);
}

static bool is_short_launch(const task* work) {
  return expected_nanoseconds((const launched*)work) < SHORT_NANOSECONDS;
}

/* ---- Running ---- */

static void run_items(const launched* work, const item_range* items, int thread) {
  if (work->local_memory == NULL) {
    work->kernel->entry(items, (void* const*)work->arguments);
    return;
  }
  void* arguments[MAX_PARAMETERS];
  void* local[MAX_PARAMETERS];
  memcpy(arguments, work->arguments, work->argument_count * sizeof *arguments);
  for (uint32_t i = 0; i < work->local_count; i++) {
    local[i] = work->local_memory + (uint64_t)thread * work->local_bytes + work->locals[i].offset;
    arguments[work->locals[i].index] = &local[i];
  }
  work->kernel->entry(items, arguments);
}

/* A launch that several threads run. */
typedef struct shared_launch {
  const launched* work;
  uint64_t cuts[3]; /* parts of each dimension */
  /* Of thread 0: the number of its parts, and the end of the last one. */
  uint64_t own_parts, end;
} shared_launch;

/* Divides the launch, the outermost dimension first. Returns the number of parts: `wanted` up to
 * twice as many, if there are enough work-items. */
static uint64_t cut(const item_range* items, uint64_t wanted, uint64_t cuts[3]) {
  uint64_t parts = 1;
  for (int i = 2; i >= 0; i--) {
    uint64_t size = items->last[i] - items->first[i];
    uint64_t missing = (wanted + parts - 1) / parts;
    cuts[i] = size < missing ? size : missing;
    parts *= cuts[i];
  }
  return parts;
}

static void run_part(void* argument, uint64_t part, int thread) {
  shared_launch* shared = argument;
  item_range items = shared->work->items;
  for (int i = 0; i < 3; i++) {
    uint64_t first = items.first[i], size = items.last[i] - first, index = part % shared->cuts[i];
    part /= shared->cuts[i];
    items.first[i] = first + size * index / shared->cuts[i];
    items.last[i] = first + size * (index + 1) / shared->cuts[i];
  }
  run_items(shared->work, &items, thread);
  if (thread == 0) {
    shared->own_parts++;
    shared->end = nanoseconds();
  }
}

static ob_status run_launch(task* launch) {
  const launched* work = (const launched*)launch;
  uint32_t expected = expected_nanoseconds(work);
  uint64_t start = nanoseconds();
  if (expected >= SHARED_NANOSECONDS) {
    uint64_t wanted = (uint64_t)host_settings.threads * PARTS_OF_THREAD;
    if (expected / PART_NANOSECONDS < wanted) wanted = expected / PART_NANOSECONDS;
    if (expected < UINT32_MAX && expected / LONGEST_PART > wanted) wanted = expected / LONGEST_PART;
    shared_launch shared = {.work = work};
    uint64_t parts = cut(&work->items, wanted, shared.cuts);
    if (parts > 1 && share_work(run_part, &shared, parts)) {
      if (shared.own_parts > 0) {
        note_nanoseconds(work, (shared.end - start) * parts / shared.own_parts);
      }
      return OB_OK;
    }
  }
  run_items(work, &work->items, 0);
  note_nanoseconds(work, nanoseconds() - start);
  return OB_OK;
}

static void destroy_launch(task* launch) {
  launched* work = (launched*)launch;
  release_kernel(work->kernel);
  free(work->local_memory);
  free(work);
}

/* ---- Launching ---- */

/* The alignment of a type is a power of two that divides its size. */
static uint64_t align(uint64_t offset, uint64_t bytes) {
  uint64_t alignment = bytes & -bytes;
  if (alignment > LARGEST_ALIGNMENT) alignment = LARGEST_ALIGNMENT;
  return (offset + alignment - 1) & -alignment;
}

static launched* allocate_launch(const ob_launch* wanted, const item_range* items) {
  uint64_t bytes = wanted->argument_count * (sizeof(void*) + sizeof(local_argument));
  for (uint32_t i = 0; i < wanted->argument_count; i++) {
    const ob_argument* argument = ob_argument_of(wanted, i);
    /* Each may be aligned to its size. */
    bytes += 2ull * (argument->kind == OB_ARGUMENT_VALUE ? argument->size : sizeof(ob_address));
  }
  launched* created = malloc(sizeof *created + bytes + LARGEST_ALIGNMENT);
  if (created == NULL) return NULL;
  *created = (launched){.task = {1, run_launch, is_short_launch, destroy_launch},
                        .kernel = wanted->kernel,
                        .items = *items,
                        .argument_count = wanted->argument_count};
  created->locals = (local_argument*)(created->arguments + wanted->argument_count);
  atomic_fetch_add(&wanted->kernel->references, 1);
  return created;
}

/* Copies checked arguments behind the launch. */
static ob_status copy_arguments(int32_t device, const ob_launch* wanted, launched* created) {
  char* memory = (char*)(created->locals + created->argument_count);
  memory += -(uintptr_t)memory & (LARGEST_ALIGNMENT - 1);
  uint64_t used = 0;
  const item_range* items = &created->items;
  uint64_t hash = hash_bytes(HASH_START, items->global_size, sizeof items->global_size);
  for (uint32_t i = 0; i < wanted->argument_count; i++) {
    const ob_argument* argument = ob_argument_of(wanted, i);
    if (argument->kind == OB_ARGUMENT_LOCAL) {
      uint64_t offset = (created->local_bytes + LARGEST_ALIGNMENT - 1) & -LARGEST_ALIGNMENT;
      created->locals[created->local_count].index = i;
      created->locals[created->local_count++].offset = (uint32_t)offset;
      created->local_bytes = offset + argument->size;
    } else if (argument->kind == OB_ARGUMENT_VALUE) {
      used = align(used, argument->size);
      created->arguments[i] = memory + used;
      memcpy(created->arguments[i], argument->value, argument->size);
      hash = hash_bytes(hash, argument->value, argument->size);
      used += argument->size;
    } else {
      char* contents = (char*)(uintptr_t)argument->address;
      ob_status status = OB_OK;
      if (!host_settings.shared || contents == NULL) {
        status = locate(device, argument->address, 1, &contents);
      }
      if (status != OB_OK) return status;
      used = align(used, sizeof contents);
      created->arguments[i] = memory + used;
      memcpy(created->arguments[i], &contents, sizeof contents);
      used += sizeof contents;
    }
  }
  created->signature = (uint32_t)(hash ^ hash >> 32) | 1;
  if (created->local_count == 0) return OB_OK;
  created->local_bytes = (created->local_bytes + LARGEST_ALIGNMENT - 1) & -LARGEST_ALIGNMENT;
  if (created->local_bytes > LOCAL_MEMORY_BYTES) {
    return fail(OB_INVALID_ARGUMENT,
                "Kernel %s: %llu bytes of local memory were asked for; there are %d.",
                wanted->kernel->name, (unsigned long long)created->local_bytes, LOCAL_MEMORY_BYTES);
  }
  created->local_memory =
      aligned_alloc(LARGEST_ALIGNMENT, created->local_bytes * (uint64_t)host_settings.threads);
  if (created->local_memory == NULL) {
    return fail(OB_OUT_OF_MEMORY, "The host has no memory for a launch.");
  }
  return OB_OK;
}

ob_status launch(void* context, ob_queue queue, const ob_launch* wanted) {
  ob_kernel kernel = wanted->kernel;
  if (kernel->device != device_of(queue)) {
    return fail(OB_INVALID_ARGUMENT, "Kernel %s of device %d cannot run on a queue of device %d.",
                kernel->name, kernel->device, device_of(queue));
  }
  item_range items;
  ob_status status =
      read_launch(wanted, kernel->name, kernel->parameters, kernel->parameter_count, &items);
  if (status != OB_OK) return status;
  launched* created = allocate_launch(wanted, &items);
  if (created == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for a launch.");
  status = copy_arguments(device_of(queue), wanted, created);
  if (status == OB_OK) return enqueue_task(queue, &created->task);
  destroy_launch(&created->task);
  return status;
}
