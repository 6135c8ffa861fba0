/*
 * The host driver: devices made of the host's own memory and threads.
 *
 * It is here to be read. A driver for real hardware has the same parts in the same order: messages,
 * devices, memory, queues, events, transfers, and the table that names them all. It runs no code
 * (the group "code" of the contract is NULL), so operators run on the host.
 *
 * Settings, read once by `initialize`:
 *
 *   OUTBOARD_HOST_DEVICES  number of devices, 0 to 64; default 2
 *   OUTBOARD_HOST_MEMORY   bytes of each device; default half of physical memory, divided equally
 *   OUTBOARD_HOST_ACCESS   "shared" (default): device addresses are host pointers, and any memory
 * of the host is device memory, too. "separate": as on a card with memory of its own, the host
 * cannot touch a device address at all; an access without a copy faults at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <outboard/driver.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
  MAX_DEVICES = 64,
  GREATEST_PRIORITY = -1,
  LEAST_PRIORITY = 0,
  ALIGNMENT = 64, /* what tensors need; allocations start at pages, which is more */
  /* Copies and fills up to this size are done by the calling thread if the queue is idle: waking a
   * worker costs more than the copy. */
  SHORT_BYTES = 16 * 1024
};

/* ---- Messages ----------------------------------------------------------------------------- */

static _Thread_local char message[512] = "No call has failed in this thread.";

static const char* last_error(void) { return message; }

/* Keeps the message and returns the status, so that failing is one statement. */
__attribute__((format(printf, 2, 3))) static ob_status fail(ob_status status, const char* format,
                                                            ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return status;
}

/* ---- Devices ------------------------------------------------------------------------------ */

/* A piece of a device's memory, from `start` to the start of the next block. */
typedef struct block {
  uint64_t start; /* bytes from the base of the device */
  uint64_t used;  /* bytes asked for; 0: free */
} block;

typedef struct device {
  char* base;     /* device addresses are [base, base + memory) */
  char* contents; /* where the driver reaches the same bytes; equals base when shared */
  pthread_mutex_t lock;
  block* blocks; /* sorted by start, covering the whole memory; neighbours are never both free */
  size_t block_count, block_capacity;
  uint64_t allocated; /* bytes in whole pages */
} device;

static device devices[MAX_DEVICES];
static int32_t number_of_devices;
static uint64_t memory_per_device;
static uint64_t page_size;
static bool shared;

static uint64_t whole_pages(uint64_t bytes) { return (bytes + page_size - 1) & ~(page_size - 1); }

static ob_status check_device(int32_t index) {
  if (index >= 0 && index < number_of_devices) return OB_OK;
  return fail(OB_INVALID_ARGUMENT, "Device %d does not exist: the host driver has %d devices.",
              index, number_of_devices);
}

/* Reads a whole number from the environment. */
static ob_status read_setting(const char* variable, uint64_t smallest, uint64_t largest,
                              uint64_t* value) {
  const char* text = getenv(variable);
  if (text == NULL || *text == '\0') return OB_OK;
  char* end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (strchr(text, '-') != NULL || *end != '\0' || errno != 0 || number < smallest ||
      number > largest) {
    return fail(OB_INVALID_ARGUMENT, "%s=%.100s is not a whole number from %llu to %llu.", variable,
                text, (unsigned long long)smallest, (unsigned long long)largest);
  }
  *value = number;
  return OB_OK;
}

/* Reserves addresses; pages are taken from the system when first written. */
static char* reserve(uint64_t bytes, int protection) {
  void* memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static ob_status create_device(device* created) {
  created->contents = reserve(memory_per_device, PROT_READ | PROT_WRITE);
  /* When separate, addresses come from a range of their own that nobody can read or write. */
  created->base = shared ? created->contents : reserve(memory_per_device, PROT_NONE);
  created->block_capacity = 64;
  created->blocks = calloc(created->block_capacity, sizeof(block));
  created->block_count = 1; /* the zeroed block 0: everything is free */
  pthread_mutex_init(&created->lock, NULL);
  if (created->contents == NULL || created->base == NULL || created->blocks == NULL) {
    return fail(OB_OUT_OF_MEMORY, "The host cannot reserve %llu bytes of addresses for a device.",
                (unsigned long long)memory_per_device);
  }
  /* First writes to fresh memory get several times faster; a hint, so its status is of no interest.
   */
  (void)madvise(created->contents, memory_per_device, MADV_HUGEPAGE);
  return OB_OK;
}

static ob_status initialize(void) {
  page_size = (uint64_t)sysconf(_SC_PAGESIZE);

  const char* access = getenv("OUTBOARD_HOST_ACCESS");
  shared = access == NULL || *access == '\0' || strcmp(access, "shared") == 0;
  if (!shared && strcmp(access, "separate") != 0) {
    return fail(OB_INVALID_ARGUMENT,
                "OUTBOARD_HOST_ACCESS=%.100s is neither \"shared\" nor \"separate\".", access);
  }

  uint64_t count = 2;
  ob_status status = read_setting("OUTBOARD_HOST_DEVICES", 0, MAX_DEVICES, &count);
  if (status != OB_OK) return status;

  uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * page_size;
  memory_per_device = count == 0 ? 0 : physical / 2 / count;
  status = read_setting("OUTBOARD_HOST_MEMORY", 1, UINT64_C(1) << 46, &memory_per_device);
  if (status != OB_OK) return status;
  memory_per_device = whole_pages(memory_per_device);

  for (uint64_t i = 0; i < count; i++) {
    status = create_device(&devices[i]);
    if (status != OB_OK) return status;
  }
  number_of_devices = (int32_t)count;
  return OB_OK;
}

static ob_status device_count(int32_t* count) {
  *count = number_of_devices;
  return OB_OK;
}

static ob_status device_properties(int32_t index, ob_device_properties* properties) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  ob_device_properties ours = {
      .struct_size = properties->struct_size,
      .vendor = "torch_outboard",
      .driver_version = "1",
      .kind = OB_DEVICE_CPU,
      .addressing = OB_ADDRESSING_POINTER,
      .host_access = shared ? OB_HOST_ACCESS_COHERENT : OB_HOST_ACCESS_NONE,
      .dtypes = OB_DTYPE_BOOL | OB_DTYPE_UINT8 | OB_DTYPE_INT8 | OB_DTYPE_INT16 | OB_DTYPE_INT32 |
                OB_DTYPE_INT64 | OB_DTYPE_FLOAT16 | OB_DTYPE_BFLOAT16 | OB_DTYPE_FLOAT32 |
                OB_DTYPE_FLOAT64 | OB_DTYPE_COMPLEX64 | OB_DTYPE_COMPLEX128,
      .features = shared ? OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY : 0,
      .total_memory = memory_per_device,
      .max_allocation = memory_per_device,
      .alignment = ALIGNMENT,
      .compute_units = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
      .least_priority = LEAST_PRIORITY,
      .greatest_priority = GREATEST_PRIORITY,
  };
  snprintf(ours.name, sizeof ours.name, "Host device %d (%s memory)", index,
           shared ? "shared" : "separate");
  /* The caller may have been compiled with an older, shorter struct. */
  size_t size = properties->struct_size < sizeof ours ? properties->struct_size : sizeof ours;
  memcpy(properties, &ours, size);
  return OB_OK;
}

/* ---- Memory: first fit in whole pages, free neighbours merged ----------------------------- */

static uint64_t block_end(const device* owner, size_t i) {
  return i + 1 < owner->block_count ? owner->blocks[i + 1].start : memory_per_device;
}

/* The block that holds the byte at `offset`. */
static size_t find_block(const device* owner, uint64_t offset) {
  size_t low = 0, high = owner->block_count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (owner->blocks[middle].start <= offset) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

static bool reserve_block_entry(device* owner) {
  if (owner->block_count < owner->block_capacity) return true;
  block* larger = realloc(owner->blocks, 2 * owner->block_capacity * sizeof(block));
  if (larger == NULL) return false;
  owner->blocks = larger;
  owner->block_capacity *= 2;
  return true;
}

static void insert_block(device* owner, size_t i, block inserted) {
  memmove(&owner->blocks[i + 1], &owner->blocks[i], (owner->block_count - i) * sizeof(block));
  owner->blocks[i] = inserted;
  owner->block_count++;
}

static void remove_block(device* owner, size_t i) {
  owner->block_count--;
  memmove(&owner->blocks[i], &owner->blocks[i + 1], (owner->block_count - i) * sizeof(block));
}

static ob_status allocate(int32_t index, uint64_t bytes, ob_address* address) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  if (bytes == 0) return fail(OB_INVALID_ARGUMENT, "An allocation of 0 bytes was asked for.");
  device* owner = &devices[index];
  uint64_t size = bytes > memory_per_device ? UINT64_MAX : whole_pages(bytes);

  pthread_mutex_lock(&owner->lock);
  size_t i = 0;
  while (i < owner->block_count &&
         (owner->blocks[i].used != 0 || block_end(owner, i) - owner->blocks[i].start < size)) {
    i++;
  }
  if (i < owner->block_count && reserve_block_entry(owner)) {
    uint64_t start = owner->blocks[i].start;
    if (start + size < block_end(owner, i)) {
      insert_block(owner, i + 1, (block){.start = start + size});
    }
    owner->blocks[i].used = bytes;
    owner->allocated += size;
    *address = (ob_address)(uintptr_t)(owner->base + start);
  } else {
    status = fail(OB_OUT_OF_MEMORY,
                  "Device %d has no free range of %llu bytes: %llu of its %llu bytes are in use; "
                  "OUTBOARD_HOST_MEMORY sets the size.",
                  index, (unsigned long long)bytes, (unsigned long long)owner->allocated,
                  (unsigned long long)memory_per_device);
  }
  pthread_mutex_unlock(&owner->lock);
  return status;
}

static ob_status deallocate(int32_t index, ob_address address) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  device* owner = &devices[index];
  uint64_t offset = address - (uintptr_t)owner->base; /* beyond every block if not ours */

  pthread_mutex_lock(&owner->lock);
  size_t i = find_block(owner, offset);
  if (owner->blocks[i].start == offset && owner->blocks[i].used != 0) {
    uint64_t size = whole_pages(owner->blocks[i].used);
    (void)madvise(owner->contents + offset, size, MADV_DONTNEED); /* back to the system */
    owner->allocated -= size;
    owner->blocks[i].used = 0;
    if (i + 1 < owner->block_count && owner->blocks[i + 1].used == 0) remove_block(owner, i + 1);
    if (i > 0 && owner->blocks[i - 1].used == 0) remove_block(owner, i);
  } else {
    status = fail(OB_INVALID_ARGUMENT, "0x%llx is not the start of an allocation on device %d.",
                  (unsigned long long)address, index);
  }
  pthread_mutex_unlock(&owner->lock);
  return status;
}

static ob_status memory_info(int32_t index, uint64_t* free_bytes, uint64_t* total_bytes) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  pthread_mutex_lock(&devices[index].lock);
  *free_bytes = memory_per_device - devices[index].allocated;
  *total_bytes = memory_per_device;
  pthread_mutex_unlock(&devices[index].lock);
  return OB_OK;
}

/* Pinned memory. The workers copy from any memory, and nothing here is done by hardware that needs
 * pages to stay where they are, so nothing is locked. */
static ob_status host_allocate(uint64_t bytes, void** pointer) {
  if (bytes == 0) return fail(OB_INVALID_ARGUMENT, "An allocation of 0 bytes was asked for.");
  if (bytes > PTRDIFF_MAX || posix_memalign(pointer, page_size, bytes) != 0) {
    return fail(OB_OUT_OF_MEMORY, "The host has no %llu bytes of pinned memory.",
                (unsigned long long)bytes);
  }
  return OB_OK;
}

static ob_status host_deallocate(void* pointer) {
  free(pointer);
  return OB_OK;
}

static bool overlaps(const device* other, uint64_t address, uint64_t bytes) {
  uint64_t base = (uintptr_t)other->base;
  return address < base + memory_per_device && base < address + bytes;
}

/* Where the driver finds [address, address + bytes) of a device. */
static ob_status locate(int32_t index, ob_address address, uint64_t bytes, char** contents) {
  if (address == 0 || bytes > UINT64_MAX - address) {
    return fail(OB_INVALID_ARGUMENT, "%llu bytes at address 0x%llx are no range of memory.",
                (unsigned long long)bytes, (unsigned long long)address);
  }
  for (int32_t i = 0; i < number_of_devices; i++) {
    device* owner = &devices[i];
    if (!overlaps(owner, address, bytes)) continue;
    uint64_t offset = address - (uintptr_t)owner->base;
    pthread_mutex_lock(&owner->lock);
    block found = owner->blocks[find_block(owner, offset)];
    pthread_mutex_unlock(&owner->lock);
    if (i != index || offset < found.start || bytes > found.used ||
        offset - found.start > found.used - bytes) {
      return fail(OB_INVALID_ARGUMENT,
                  "%llu bytes at 0x%llx do not lie in one allocation of device %d.",
                  (unsigned long long)bytes, (unsigned long long)address, index);
    }
    *contents = owner->contents + offset;
    return OB_OK;
  }
  if (!shared) {
    return fail(OB_INVALID_ARGUMENT, "0x%llx is not an address of device %d.",
                (unsigned long long)address, index);
  }
  *contents = (char*)(uintptr_t)address; /* memory of the host is device memory, too */
  return OB_OK;
}

/* A host pointer cannot be checked fully; these are the mistakes that can be seen. */
static ob_status check_host_range(const void* pointer, uint64_t bytes) {
  uint64_t address = (uintptr_t)pointer;
  if (pointer == NULL || bytes > UINT64_MAX - address) {
    return fail(OB_INVALID_ARGUMENT, "%llu bytes at %p are no range of host memory.",
                (unsigned long long)bytes, pointer);
  }
  for (int32_t i = 0; i < number_of_devices && !shared; i++) {
    if (overlaps(&devices[i], address, bytes)) {
      return fail(OB_INVALID_ARGUMENT, "%p is an address of device %d where host memory belongs.",
                  pointer, i);
    }
  }
  return OB_OK;
}

/* ---- Work --------------------------------------------------------------------------------- */

/* One use of event_record. The event, the command in the queue and every wait hold a reference, so
 * each can go first, and recording the event again changes nothing for earlier waits. */
typedef struct recording {
  atomic_int references;
  atomic_int missing; /* commands of kind RECORD that have not run; happened: 0 */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct timespec time; /* valid once it has happened */
} recording;

typedef enum command_kind { COPY, FILL, CALLBACK, RECORD, WAIT } command_kind;

typedef struct command {
  struct command* next;
  command_kind kind;
  union {
    struct {
      char* destination;
      const char* source;
      uint64_t destination_pitch, source_pitch, row_bytes, rows;
    } copy;
    struct {
      char* destination;
      uint64_t bytes;
      uint32_t pattern_bytes;
      unsigned char pattern[16];
    } fill;
    struct {
      ob_host_function function;
      void* argument;
    } callback;
    recording* recording; /* of RECORD and WAIT; the command owns one reference */
  };
} command;

static recording* create_recording(void) {
  recording* created = malloc(sizeof *created);
  if (created == NULL) return NULL;
  atomic_init(&created->references, 1);
  atomic_init(&created->missing, 1);
  pthread_mutex_init(&created->lock, NULL);
  pthread_cond_init(&created->changed, NULL);
  return created;
}

static recording* retain(recording* kept) {
  if (kept != NULL) atomic_fetch_add(&kept->references, 1);
  return kept;
}

static void release(recording* released) {
  if (released == NULL || atomic_fetch_sub(&released->references, 1) != 1) return;
  pthread_cond_destroy(&released->changed);
  pthread_mutex_destroy(&released->lock);
  free(released);
}

static bool has_happened(recording* asked) { return atomic_load(&asked->missing) == 0; }

static void wait_until_happened(recording* awaited) {
  if (has_happened(awaited)) return;
  pthread_mutex_lock(&awaited->lock);
  while (!has_happened(awaited)) pthread_cond_wait(&awaited->changed, &awaited->lock);
  pthread_mutex_unlock(&awaited->lock);
}

static void run_copy(const command* work) {
  char* destination = work->copy.destination;
  const char* source = work->copy.source;
  for (uint64_t row = 0; row < work->copy.rows; row++) {
    memmove(destination, source, work->copy.row_bytes);
    destination += work->copy.destination_pitch;
    source += work->copy.source_pitch;
  }
}

static void run_fill(const command* work) {
  if (work->fill.pattern_bytes == 1) {
    memset(work->fill.destination, work->fill.pattern[0], work->fill.bytes);
    return;
  }
  /* Repeat the pattern in a tile that stays in the cache, then the tile. */
  char tile[4096];
  uint64_t tile_bytes = work->fill.bytes < sizeof tile ? work->fill.bytes : sizeof tile;
  for (uint64_t i = 0; i < tile_bytes; i += work->fill.pattern_bytes) {
    memcpy(tile + i, work->fill.pattern, work->fill.pattern_bytes);
  }
  for (uint64_t i = 0; i < work->fill.bytes; i += tile_bytes) {
    uint64_t rest = work->fill.bytes - i;
    memcpy(work->fill.destination + i, tile, rest < tile_bytes ? rest : tile_bytes);
  }
}

static void run_record(recording* recorded) {
  pthread_mutex_lock(&recorded->lock);
  clock_gettime(CLOCK_MONOTONIC, &recorded->time);
  atomic_fetch_sub(&recorded->missing, 1);
  pthread_cond_broadcast(&recorded->changed);
  pthread_mutex_unlock(&recorded->lock);
}

static void run(const command* work) {
  switch (work->kind) {
    case COPY:
      run_copy(work);
      break;
    case FILL:
      run_fill(work);
      break;
    case CALLBACK:
      work->callback.function(work->callback.argument);
      break;
    case RECORD:
      run_record(work->recording);
      break;
    case WAIT:
      wait_until_happened(work->recording);
      break;
  }
}

static bool is_short(const command* work) {
  switch (work->kind) {
    case COPY:
      return work->copy.rows <= SHORT_BYTES &&
             work->copy.row_bytes <= SHORT_BYTES / work->copy.rows;
    case FILL:
      return work->fill.bytes <= SHORT_BYTES;
    case RECORD:
      return true;
    case WAIT:
      return has_happened(work->recording);
    case CALLBACK:
      break;
  }
  return false;
}

static void free_command(command* work) {
  if (work->kind == RECORD || work->kind == WAIT) release(work->recording);
  free(work);
}

/* NULL if there is no memory. */
static command* new_command(command content) {
  command* created = malloc(sizeof *created);
  if (created != NULL) {
    *created = content;
  } else if (content.kind == RECORD || content.kind == WAIT) {
    release(content.recording);
  }
  return created;
}

/* ---- Queues: a list of commands and a worker thread --------------------------------------- */

struct ob_queue_t {
  int32_t device;
  pthread_mutex_t lock;
  pthread_cond_t work_arrived;
  pthread_cond_t work_done;
  command *first, *last;
  /* Changed under the lock, read without: an idle queue answers with two loads. */
  _Atomic uint64_t submitted, completed;
  int waiting; /* threads in queue_synchronize */
  bool has_worker, stopping;
  pthread_t worker;
  ob_graph graph; /* not NULL: commands are captured there */
  ob_queue next;  /* in the list of all queues */
};

/* Commands captured from a queue. */
struct ob_graph_t {
  int32_t device;
  command *first, *last;
};

static void free_graph(ob_graph graph) {
  if (graph == NULL) return;
  while (graph->first != NULL) {
    command* work = graph->first;
    graph->first = work->next;
    free_command(work);
  }
  free(graph);
}

static pthread_mutex_t queues_lock = PTHREAD_MUTEX_INITIALIZER;
static ob_queue queues;

static bool is_idle(ob_queue queue) {
  return atomic_load(&queue->completed) == atomic_load(&queue->submitted);
}

static void* run_worker(void* argument) {
  ob_queue queue = argument;
  pthread_mutex_lock(&queue->lock);
  for (;;) {
    while (queue->first == NULL && !queue->stopping) {
      pthread_cond_wait(&queue->work_arrived, &queue->lock);
    }
    command* work = queue->first;
    if (work == NULL) break;
    queue->first = work->next;
    pthread_mutex_unlock(&queue->lock);
    run(work);
    free_command(work);
    pthread_mutex_lock(&queue->lock);
    atomic_fetch_add(&queue->completed, 1);
    if (queue->waiting > 0) pthread_cond_broadcast(&queue->work_done);
  }
  pthread_mutex_unlock(&queue->lock);
  return NULL;
}

/* A worker starts with the first command that needs one. It blocks all signals: they belong to
 * threads of the application. */
static ob_status start_worker(ob_queue queue) {
  if (queue->has_worker) return OB_OK;
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  int error = pthread_create(&queue->worker, NULL, run_worker, queue);
  pthread_sigmask(SIG_SETMASK, &previous, NULL);
  if (error != 0) {
    return fail(OB_ERROR, "The worker thread of a queue could not be started: %s.",
                strerror(error));
  }
  pthread_setname_np(queue->worker, "outboard_host");
  queue->has_worker = true;
  return OB_OK;
}

static void stop_worker(ob_queue queue) {
  pthread_mutex_lock(&queue->lock);
  bool joins = queue->has_worker && !queue->stopping;
  queue->stopping = true;
  pthread_cond_signal(&queue->work_arrived);
  pthread_mutex_unlock(&queue->lock);
  if (joins) pthread_join(queue->worker, NULL);
}

static void append(command** first, command** last, command* appended) {
  if (*first == NULL) {
    *first = appended;
  } else {
    (*last)->next = appended;
  }
  *last = appended;
}

/* Gives a command to the worker and owns it whatever happens. The caller holds the queue's lock. */
static ob_status submit(ob_queue queue, command* work) {
  if (work == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for work on a queue.");
  ob_status status = OB_OK;
  if (queue->stopping) status = fail(OB_ERROR, "The host driver has ended.");
  if (status == OB_OK) status = start_worker(queue);
  if (status != OB_OK) {
    free_command(work);
    return status;
  }
  append(&queue->first, &queue->last, work);
  atomic_fetch_add(&queue->submitted, 1);
  pthread_cond_signal(&queue->work_arrived);
  return OB_OK;
}

static ob_status capture(ob_graph graph, command* work) {
  if (work->kind == RECORD || work->kind == WAIT) {
    free_command(work);
    return fail(OB_UNSUPPORTED, "The host driver cannot capture events in a graph.");
  }
  append(&graph->first, &graph->last, work);
  return OB_OK;
}

/* Captures, does or submits a command from new_command, and owns it whatever happens. The caller
 * holds the queue's lock. */
static ob_status enqueue_locked(ob_queue queue, command* work) {
  if (work == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for work on a queue.");
  if (queue->graph != NULL) return capture(queue->graph, work);
  if (!is_idle(queue) || !is_short(work)) return submit(queue, work);
  run(work);
  free_command(work);
  return OB_OK;
}

static ob_status enqueue(ob_queue queue, command* work) {
  pthread_mutex_lock(&queue->lock);
  ob_status status = enqueue_locked(queue, work);
  pthread_mutex_unlock(&queue->lock);
  return status;
}

static ob_status queue_create(int32_t index, int32_t priority, ob_queue* queue) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  /* Raising a thread's priority takes privileges that programs rarely have, so the two priorities
   * are accepted and treated alike. */
  if (priority < GREATEST_PRIORITY || priority > LEAST_PRIORITY) {
    return fail(OB_INVALID_ARGUMENT, "Priority %d is not between %d and %d.", priority,
                GREATEST_PRIORITY, LEAST_PRIORITY);
  }
  ob_queue created = calloc(1, sizeof *created);
  if (created == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for a queue.");
  created->device = index;
  pthread_mutex_init(&created->lock, NULL);
  pthread_cond_init(&created->work_arrived, NULL);
  pthread_cond_init(&created->work_done, NULL);
  pthread_mutex_lock(&queues_lock);
  created->next = queues;
  queues = created;
  pthread_mutex_unlock(&queues_lock);
  *queue = created;
  return OB_OK;
}

static ob_status queue_query(ob_queue queue) { return is_idle(queue) ? OB_OK : OB_NOT_READY; }

static ob_status queue_synchronize(ob_queue queue) {
  uint64_t target = atomic_load(&queue->submitted);
  if (atomic_load(&queue->completed) >= target) return OB_OK;
  pthread_mutex_lock(&queue->lock);
  queue->waiting++;
  while (atomic_load(&queue->completed) < target) {
    pthread_cond_wait(&queue->work_done, &queue->lock);
  }
  queue->waiting--;
  pthread_mutex_unlock(&queue->lock);
  return OB_OK;
}

static ob_status queue_destroy(ob_queue queue) {
  pthread_mutex_lock(&queues_lock);
  ob_queue* link = &queues;
  while (*link != NULL && *link != queue) link = &(*link)->next;
  bool known = *link != NULL;
  if (known) *link = queue->next;
  pthread_mutex_unlock(&queues_lock);
  if (!known) {
    return fail(OB_INVALID_ARGUMENT, "%p is not a queue of the host driver.", (void*)queue);
  }
  stop_worker(queue); /* which does all its work before */
  free_graph(queue->graph);
  pthread_cond_destroy(&queue->work_done);
  pthread_cond_destroy(&queue->work_arrived);
  pthread_mutex_destroy(&queue->lock);
  free(queue);
  return OB_OK;
}

/* One mark at the end of every busy queue: while we wait, queues may come and go. */
static ob_status device_synchronize(int32_t index) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  recording* mark = create_recording();
  if (mark == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory to wait for a device.");
  pthread_mutex_lock(&queues_lock);
  for (ob_queue queue = queues; queue != NULL && status == OB_OK; queue = queue->next) {
    if (queue->device != index || is_idle(queue)) continue;
    atomic_fetch_add(&mark->missing, 1);
    command* work = new_command((command){.kind = RECORD, .recording = retain(mark)});
    pthread_mutex_lock(&queue->lock);
    status = submit(queue, work);
    pthread_mutex_unlock(&queue->lock);
  }
  pthread_mutex_unlock(&queues_lock);
  run_record(mark); /* the one that a new recording misses */
  if (status == OB_OK) wait_until_happened(mark);
  release(mark);
  return status;
}

static ob_status finalize(void) {
  /* Memory stays mapped until the process ends: other threads may still look at tensors. */
  pthread_mutex_lock(&queues_lock);
  for (ob_queue queue = queues; queue != NULL; queue = queue->next) stop_worker(queue);
  pthread_mutex_unlock(&queues_lock);
  return OB_OK;
}

/* ---- Events ------------------------------------------------------------------------------- */

struct ob_event_t {
  int32_t device;
  uint32_t flags;
  pthread_mutex_t lock;
  recording* latest; /* NULL: never recorded */
};

/* With a reference for the caller. */
static recording* latest_recording(ob_event event) {
  pthread_mutex_lock(&event->lock);
  recording* latest = retain(event->latest);
  pthread_mutex_unlock(&event->lock);
  return latest;
}

static ob_status event_create(int32_t index, uint32_t flags, ob_event* event) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  ob_event created = calloc(1, sizeof *created);
  if (created == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for an event.");
  created->device = index;
  created->flags = flags;
  pthread_mutex_init(&created->lock, NULL);
  *event = created;
  return OB_OK;
}

static ob_status event_destroy(ob_event event) {
  release(event->latest);
  pthread_mutex_destroy(&event->lock);
  free(event);
  return OB_OK;
}

static ob_status event_record(ob_event event, ob_queue queue) {
  if (event->device != queue->device) {
    return fail(OB_INVALID_ARGUMENT, "An event of device %d cannot be recorded on device %d.",
                event->device, queue->device);
  }
  recording* recorded = create_recording();
  if (recorded == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for an event.");
  ob_status status =
      enqueue(queue, new_command((command){.kind = RECORD, .recording = retain(recorded)}));
  if (status != OB_OK) {
    release(recorded);
    return status;
  }
  pthread_mutex_lock(&event->lock);
  recording* earlier = event->latest;
  event->latest = recorded;
  pthread_mutex_unlock(&event->lock);
  release(earlier);
  return OB_OK;
}

static ob_status event_wait(ob_queue queue, ob_event event) {
  recording* awaited = latest_recording(event);
  if (awaited == NULL) return OB_OK;
  return enqueue(queue, new_command((command){.kind = WAIT, .recording = awaited}));
}

static ob_status event_query(ob_event event) {
  recording* asked = latest_recording(event);
  ob_status status = asked == NULL || has_happened(asked) ? OB_OK : OB_NOT_READY;
  release(asked);
  return status;
}

static ob_status event_synchronize(ob_event event) {
  recording* awaited = latest_recording(event);
  if (awaited != NULL) wait_until_happened(awaited);
  release(awaited);
  return OB_OK;
}

static ob_status event_elapsed(ob_event start, ob_event end, double* milliseconds) {
  if ((start->flags & end->flags & OB_EVENT_TIMING) == 0) {
    return fail(OB_INVALID_ARGUMENT, "Both events must be created with timing enabled.");
  }
  if (start->device != end->device) {
    return fail(OB_INVALID_ARGUMENT, "The events belong to devices %d and %d.", start->device,
                end->device);
  }
  recording *from = latest_recording(start), *to = latest_recording(end);
  ob_status status = OB_OK;
  if (from == NULL || to == NULL) {
    status = fail(OB_INVALID_ARGUMENT, "Both events must have been recorded.");
  } else if (!has_happened(from) || !has_happened(to)) {
    status = OB_NOT_READY;
  } else {
    *milliseconds = 1e3 * (double)(to->time.tv_sec - from->time.tv_sec) +
                    1e-6 * (double)(to->time.tv_nsec - from->time.tv_nsec);
  }
  release(from);
  release(to);
  return status;
}

/* ---- Transfers: an ordinary copy is one row of a 2-D copy --------------------------------- */

/* Bytes from the first to the last one touched. */
static ob_status extent(uint64_t pitch, uint64_t row_bytes, uint64_t rows, uint64_t* bytes) {
  if (row_bytes == 0 || rows == 0) return fail(OB_INVALID_ARGUMENT, "A copy of 0 bytes.");
  if (rows > 1 && (pitch < row_bytes || pitch > (UINT64_MAX - row_bytes) / (rows - 1))) {
    return fail(OB_INVALID_ARGUMENT, "A pitch of %llu bytes does not suit %llu rows of %llu bytes.",
                (unsigned long long)pitch, (unsigned long long)rows, (unsigned long long)row_bytes);
  }
  *bytes = (rows - 1) * pitch + row_bytes;
  return OB_OK;
}

static ob_status locate_rows(int32_t index, ob_address address, uint64_t pitch, uint64_t row_bytes,
                             uint64_t rows, char** contents) {
  uint64_t bytes;
  ob_status status = extent(pitch, row_bytes, rows, &bytes);
  return status == OB_OK ? locate(index, address, bytes, contents) : status;
}

static ob_status check_host_rows(const void* pointer, uint64_t pitch, uint64_t row_bytes,
                                 uint64_t rows) {
  uint64_t bytes;
  ob_status status = extent(pitch, row_bytes, rows, &bytes);
  return status == OB_OK ? check_host_range(pointer, bytes) : status;
}

static ob_status enqueue_copy(ob_queue queue, char* destination, uint64_t destination_pitch,
                              const char* source, uint64_t source_pitch, uint64_t row_bytes,
                              uint64_t rows) {
  return enqueue(queue, new_command((command){.kind = COPY,
                                              .copy = {.destination = destination,
                                                       .source = source,
                                                       .destination_pitch = destination_pitch,
                                                       .source_pitch = source_pitch,
                                                       .row_bytes = row_bytes,
                                                       .rows = rows}}));
}

static ob_status copy_host_to_device_2d(ob_queue queue, ob_address destination,
                                        uint64_t destination_pitch, const void* source,
                                        uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
  char* to;
  ob_status status =
      locate_rows(queue->device, destination, destination_pitch, row_bytes, rows, &to);
  if (status == OB_OK) status = check_host_rows(source, source_pitch, row_bytes, rows);
  if (status != OB_OK) return status;
  return enqueue_copy(queue, to, destination_pitch, source, source_pitch, row_bytes, rows);
}

static ob_status copy_device_to_host_2d(ob_queue queue, void* destination,
                                        uint64_t destination_pitch, ob_address source,
                                        uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
  char* from;
  ob_status status = locate_rows(queue->device, source, source_pitch, row_bytes, rows, &from);
  if (status == OB_OK) status = check_host_rows(destination, destination_pitch, row_bytes, rows);
  if (status != OB_OK) return status;
  return enqueue_copy(queue, destination, destination_pitch, from, source_pitch, row_bytes, rows);
}

/* Every device's contents can be reached from every worker, so peers need nothing special. */
static ob_status copy_between_devices(ob_queue queue, int32_t destination_device,
                                      ob_address destination, uint64_t destination_pitch,
                                      int32_t source_device, ob_address source,
                                      uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
  char *to, *from;
  ob_status status =
      locate_rows(destination_device, destination, destination_pitch, row_bytes, rows, &to);
  if (status == OB_OK) {
    status = locate_rows(source_device, source, source_pitch, row_bytes, rows, &from);
  }
  if (status != OB_OK) return status;
  return enqueue_copy(queue, to, destination_pitch, from, source_pitch, row_bytes, rows);
}

static ob_status copy_device_to_device_2d(ob_queue queue, ob_address destination,
                                          uint64_t destination_pitch, ob_address source,
                                          uint64_t source_pitch, uint64_t row_bytes,
                                          uint64_t rows) {
  return copy_between_devices(queue, queue->device, destination, destination_pitch, queue->device,
                              source, source_pitch, row_bytes, rows);
}

static ob_status copy_host_to_device(ob_queue queue, ob_address destination, const void* source,
                                     uint64_t bytes) {
  return copy_host_to_device_2d(queue, destination, bytes, source, bytes, bytes, 1);
}

static ob_status copy_device_to_host(ob_queue queue, void* destination, ob_address source,
                                     uint64_t bytes) {
  return copy_device_to_host_2d(queue, destination, bytes, source, bytes, bytes, 1);
}

static ob_status copy_device_to_device(ob_queue queue, ob_address destination, ob_address source,
                                       uint64_t bytes) {
  return copy_device_to_device_2d(queue, destination, bytes, source, bytes, bytes, 1);
}

static ob_status copy_peer(ob_queue queue, int32_t destination_device, ob_address destination,
                           int32_t source_device, ob_address source, uint64_t bytes) {
  if (queue->device != destination_device && queue->device != source_device) {
    return fail(OB_INVALID_ARGUMENT, "A queue of device %d cannot copy from device %d to %d.",
                queue->device, source_device, destination_device);
  }
  ob_status status = check_device(destination_device);
  if (status == OB_OK) status = check_device(source_device);
  if (status != OB_OK) return status;
  return copy_between_devices(queue, destination_device, destination, bytes, source_device, source,
                              bytes, bytes, 1);
}

static ob_status fill(ob_queue queue, ob_address destination, const void* pattern,
                      uint32_t pattern_bytes, uint64_t bytes) {
  bool power_of_two = (pattern_bytes & (pattern_bytes - 1)) == 0;
  if (pattern_bytes == 0 || pattern_bytes > 16 || !power_of_two) {
    return fail(OB_INVALID_ARGUMENT, "A pattern has 1, 2, 4, 8 or 16 bytes, not %u.",
                pattern_bytes);
  }
  if (bytes == 0 || bytes % pattern_bytes != 0) {
    return fail(OB_INVALID_ARGUMENT, "%llu bytes are not a multiple of a pattern of %u bytes.",
                (unsigned long long)bytes, pattern_bytes);
  }
  command work = {.kind = FILL, .fill = {.bytes = bytes, .pattern_bytes = pattern_bytes}};
  memcpy(work.fill.pattern, pattern, pattern_bytes);
  ob_status status = locate(queue->device, destination, bytes, &work.fill.destination);
  return status == OB_OK ? enqueue(queue, new_command(work)) : status;
}

static ob_status host_callback(ob_queue queue, ob_host_function function, void* argument) {
  if (function == NULL) return fail(OB_INVALID_ARGUMENT, "The callback is NULL.");
  return enqueue(queue,
                 new_command((command){.kind = CALLBACK,
                                       .callback = {.function = function, .argument = argument}}));
}

/* ---- Graphs: captured commands, submitted again at each launch ---------------------------- */

static ob_status graph_begin(ob_queue queue) {
  ob_graph graph = calloc(1, sizeof *graph);
  if (graph == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for a graph.");
  graph->device = queue->device;
  pthread_mutex_lock(&queue->lock);
  bool capturing = queue->graph != NULL;
  if (!capturing) queue->graph = graph;
  pthread_mutex_unlock(&queue->lock);
  if (!capturing) return OB_OK;
  free(graph);
  return fail(OB_INVALID_ARGUMENT, "The queue is already capturing a graph.");
}

static ob_status graph_end(ob_queue queue, ob_graph* graph) {
  pthread_mutex_lock(&queue->lock);
  ob_graph captured = queue->graph;
  queue->graph = NULL;
  pthread_mutex_unlock(&queue->lock);
  if (captured == NULL) return fail(OB_INVALID_ARGUMENT, "The queue is not capturing a graph.");
  *graph = captured;
  return OB_OK;
}

static ob_status graph_launch(ob_queue queue, ob_graph graph) {
  if (queue->device != graph->device) {
    return fail(OB_INVALID_ARGUMENT, "A graph of device %d cannot be launched on device %d.",
                graph->device, queue->device);
  }
  ob_status status = OB_OK;
  pthread_mutex_lock(&queue->lock);
  for (command* work = graph->first; work != NULL && status == OB_OK; work = work->next) {
    command again = *work;
    again.next = NULL;
    status = enqueue_locked(queue, new_command(again));
  }
  pthread_mutex_unlock(&queue->lock);
  return status;
}

static ob_status graph_release(ob_graph graph) {
  free_graph(graph);
  return OB_OK;
}

/* ---- The table ---------------------------------------------------------------------------- */

__attribute__((visibility("default"))) const ob_driver* ob_driver_table(void) {
  static const ob_driver table = {
      .abi = OB_ABI_VERSION,
      .struct_size = sizeof(ob_driver),
      .name = "host",
      .last_error = last_error,
      .initialize = initialize,
      .finalize = finalize,
      .device_count = device_count,
      .device_properties = device_properties,
      .allocate = allocate,
      .deallocate = deallocate,
      .memory_info = memory_info,
      .host_allocate = host_allocate,
      .host_deallocate = host_deallocate,
      .queue_create = queue_create,
      .queue_destroy = queue_destroy,
      .queue_query = queue_query,
      .queue_synchronize = queue_synchronize,
      .device_synchronize = device_synchronize,
      .event_create = event_create,
      .event_destroy = event_destroy,
      .event_record = event_record,
      .event_wait = event_wait,
      .event_query = event_query,
      .event_synchronize = event_synchronize,
      .event_elapsed = event_elapsed,
      .copy_host_to_device = copy_host_to_device,
      .copy_device_to_host = copy_device_to_host,
      .copy_device_to_device = copy_device_to_device,
      .copy_peer = copy_peer,
      .copy_host_to_device_2d = copy_host_to_device_2d,
      .copy_device_to_host_2d = copy_device_to_host_2d,
      .copy_device_to_device_2d = copy_device_to_device_2d,
      .fill = fill,
      .host_callback = host_callback,
      .graph_begin = graph_begin,
      .graph_end = graph_end,
      .graph_launch = graph_launch,
      .graph_release = graph_release,
  };
  return &table;
}
