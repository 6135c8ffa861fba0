/*
 * The driver of mychip: the table of functions that outboard/driver.h describes.
 *
 * Its first part, "The chip", is what the chip has to do. Memory of the host plays the chip's
 * there, so that the driver runs as it is: put the chip's own calls in, at each `chip:`. The parts
 * behind it check arguments, know the allocations, and leave a message where a call fails.
 * They stay as they are if the chip's calls return when their work is done; `chip:` marks what
 * else changes for a chip whose queues work on their own.
 */
#define _GNU_SOURCE
#include <common/failures.h>
#include <common/settings.h>
#include <common/system.h>
#include <inttypes.h>
#include <outboard/driver.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
/* chip: its header. */

/* ---- The chip. Its calls may come from several threads at once. A failure is returned as
 *      `fail(OB_ERROR, "chip_read returned %d.", status)`. ---- */

enum { MOST_DEVICES = 16 };

static int32_t devices;                     /* how many there are */
static uint64_t memory_bytes[MOST_DEVICES]; /* of each device */
enum { ALIGNMENT = 64 };                    /* chip: of allocations, in bytes */

/* chip: looks for devices, opens them, and sets `devices` and `memory_bytes`. Without a device it
 * leaves the reason with `fail`, and returns OB_OK. */
static ob_status open_chip(void) {
  devices = 1;
  memory_bytes[0] = UINT64_C(1) << 30;
  return OB_OK;
}

/* chip: closes the devices. */
static void close_chip(void) {}

/* chip: allocates, and sets the chip's address, less than 2 to the 62nd. False if there is no
 * memory. */
static bool allocate_on_chip(int32_t device, uint64_t bytes, uint64_t* address) {
  const uint64_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  *address = (uintptr_t)aligned_alloc(ALIGNMENT, whole);
  return *address != 0;
}

/* chip: frees. */
static void free_on_chip(int32_t device, uint64_t address) { free((void*)(uintptr_t)address); }

struct ob_queue_t {
  int32_t device; /* chip: beside it, a queue of its own if it has some */
};

/* chip: copies `bytes` > 0 from the host. This function and the next three return when the work is
 * done, or, if the chip has queues, when the work is in the queue: memory of the host stays valid
 * until the queue is synchronized. */
static ob_status write_to_chip(ob_queue queue, uint64_t to, const void* from, uint64_t bytes) {
  memcpy((void*)(uintptr_t)to, from, bytes);
  return OB_OK;
}

/* chip: copies to the host. */
static ob_status read_from_chip(ob_queue queue, void* to, uint64_t from, uint64_t bytes) {
  memcpy(to, (const void*)(uintptr_t)from, bytes);
  return OB_OK;
}

/* chip: copies within a device. */
static ob_status copy_on_chip(ob_queue queue, uint64_t to, uint64_t from, uint64_t bytes) {
  memcpy((void*)(uintptr_t)to, (const void*)(uintptr_t)from, bytes);
  return OB_OK;
}

/* chip: repeats a pattern of 1, 2, 4, 8 or 16 bytes over `bytes`, a multiple of it. The pattern is
 * the caller's until this returns. */
static ob_status fill_on_chip(ob_queue queue, uint64_t to, const void* pattern, uint32_t width,
                              uint64_t bytes) {
  char* next = (char*)(uintptr_t)to;
  for (uint64_t i = 0; i < bytes; i += width) memcpy(next + i, pattern, width);
  return OB_OK;
}

typedef struct matrices {
  uint64_t address; /* the chip's */
  char order;       /* 'N': rows one after the other, 'T': columns, as for a BLAS */
  int64_t leading;  /* elements from one of these to the next */
  int64_t next;     /* elements from one matrix to the next */
} matrices;

/* out = alpha a b + beta out in float32, in each of `batch` matrices; `out` has order 'N'. */
typedef struct product {
  int64_t batch, rows, columns, depth;
  float alpha, beta;
  matrices a, b, out;
} product;

/* chip: calls its library, such as a batched sgemm. */
static ob_status multiply_on_chip(ob_queue queue, const product* p) {
  for (int64_t n = 0; n < p->batch; n++) {
    const float* a = (const float*)(uintptr_t)p->a.address + n * p->a.next;
    const float* b = (const float*)(uintptr_t)p->b.address + n * p->b.next;
    float* out = (float*)(uintptr_t)p->out.address + n * p->out.next;
    for (int64_t i = 0; i < p->rows; i++, out += p->out.leading) {
      for (int64_t j = 0; j < p->columns; j++) {
        double sum = 0;
        for (int64_t k = 0; k < p->depth; k++) {
          sum += (double)a[p->a.order == 'N' ? i * p->a.leading + k : k * p->a.leading + i] *
                 (double)b[p->b.order == 'N' ? k * p->b.leading + j : j * p->b.leading + k];
        }
        /* Without beta `out` is not read: it may hold NaN. */
        out[j] = p->alpha * (float)sum + (p->beta != 0 ? p->beta * out[j] : 0);
      }
    }
  }
  return OB_OK;
}

/* ---- Devices ---- */

/* A setting: the library is not called. */
static int products_by_host;

static ob_status check_device(int32_t device) {
  if (device >= 0 && device < devices) return OB_OK;
  return fail(OB_INVALID_ARGUMENT, "Device %d does not exist: mychip has %d.", device, devices);
}

static ob_status initialize(void* context) {
  uint64_t most = UINT64_MAX; /* bytes of a device, by a setting */
  ob_status status = read_number("OUTBOARD_MYCHIP_MEMORY", 1, UINT64_C(1) << 46, &most);
  static const char* const placements[] = {"library", "host", NULL};
  if (status == OB_OK) {
    status = read_choice("OUTBOARD_MYCHIP_PRODUCTS", placements, &products_by_host);
  }
  if (status == OB_OK) status = open_chip();
  for (int32_t i = 0; i < devices; i++) {
    if (memory_bytes[i] > most) memory_bytes[i] = most;
  }
  return status;
}

static ob_status finalize(void* context) {
  close_chip();
  return OB_OK;
}

static ob_status device_count(void* context, int32_t* count) {
  *count = devices;
  return OB_OK;
}

static ob_status device_properties(void* context, int32_t device,
                                   ob_device_properties* properties) {
  ob_status status = check_device(device);
  if (status != OB_OK) return status;
  ob_device_properties ours = {
      .struct_size = properties->struct_size,
      .name = "mychip",       /* chip: its name */
      .vendor = "its vendor", /* chip: its vendor */
      .driver_version = "1",
      .kind = OB_DEVICE_ACCELERATOR,
      .addressing = OB_ADDRESSING_POINTER,
      /* Data moves by copies alone. */
      .host_access = OB_HOST_ACCESS_NONE,
      /* chip: what its library multiplies. */
      .dtypes = OB_DTYPE_FLOAT32,
      .total_memory = memory_bytes[device],
      .alignment = ALIGNMENT,
  };
  /* The caller may know a shorter struct. */
  size_t size = properties->struct_size < sizeof ours ? properties->struct_size : sizeof ours;
  memcpy(properties, &ours, size);
  return OB_OK;
}

/* ---- Memory: torch_outboard caches it, so calls are few and large ---- */

/* A bit of the addresses that PyTorch sees, which the chip does not see: no address of the host has
 * it, so the two are never taken for each other, and the system stops a host that follows one. */
static const ob_address on_chip = UINT64_C(1) << 62;

typedef struct allocation {
  struct allocation* next;
  int32_t device;
  ob_address address;
  uint64_t bytes;
} allocation;

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static allocation* allocations;
static uint64_t used_bytes[MOST_DEVICES];

static ob_status allocate(void* context, const ob_allocation* wanted, ob_address* address) {
  ob_status status = check_device(wanted->device);
  if (status != OB_OK) return status;
  if (wanted->bytes == 0) {
    return fail(OB_INVALID_ARGUMENT, "An allocation of 0 bytes was asked for.");
  }
  const int32_t device = wanted->device;
  const uint64_t bytes = wanted->bytes;
  allocation* created = malloc(sizeof *created);
  uint64_t memory = 0;
  pthread_mutex_lock(&memory_lock);
  const uint64_t used = used_bytes[device];
  const bool has_memory = created != NULL && bytes <= memory_bytes[device] - used &&
                          allocate_on_chip(device, bytes, &memory);
  if (has_memory) {
    *address = memory | on_chip;
    *created = (allocation){allocations, device, *address, bytes};
    allocations = created;
    used_bytes[device] += bytes;
  }
  pthread_mutex_unlock(&memory_lock);
  if (has_memory) return OB_OK;
  free(created);
  return fail(OB_OUT_OF_MEMORY,
              "Device %d has no %" PRIu64 " bytes: %" PRIu64 " of its %" PRIu64 " are in use.",
              device, bytes, used, memory_bytes[device]);
}

static ob_status deallocate(void* context, int32_t device, ob_address address) {
  ob_status status = check_device(device);
  if (status != OB_OK) return status;
  pthread_mutex_lock(&memory_lock);
  allocation** link = &allocations;
  while (*link != NULL && ((*link)->device != device || (*link)->address != address)) {
    link = &(*link)->next;
  }
  allocation* found = *link;
  if (found != NULL) {
    *link = found->next;
    used_bytes[device] -= found->bytes;
  }
  pthread_mutex_unlock(&memory_lock);
  if (found == NULL) {
    return fail(OB_INVALID_ARGUMENT,
                "0x%" PRIx64 " is not the start of an allocation on device %d.", address, device);
  }
  free_on_chip(device, address & ~on_chip);
  free(found);
  return OB_OK;
}

static ob_status memory_info(void* context, int32_t device, uint64_t* free_bytes,
                             uint64_t* total_bytes) {
  ob_status status = check_device(device);
  if (status != OB_OK) return status;
  pthread_mutex_lock(&memory_lock);
  *free_bytes = memory_bytes[device] - used_bytes[device];
  pthread_mutex_unlock(&memory_lock);
  *total_bytes = memory_bytes[device];
  return OB_OK;
}

/* Finds the chip's address of a range, which lies in one allocation of the device. */
static ob_status locate(int32_t device, ob_address address, uint64_t bytes, uint64_t* contents) {
  pthread_mutex_lock(&memory_lock);
  const allocation* found = allocations;
  while (found != NULL && (found->device != device || address < found->address ||
                           address - found->address >= found->bytes ||
                           bytes > found->bytes - (address - found->address))) {
    found = found->next;
  }
  pthread_mutex_unlock(&memory_lock);
  if (found == NULL) {
    return fail(OB_INVALID_ARGUMENT,
                "%" PRIu64 " bytes at 0x%" PRIx64 " do not lie in one allocation of device %d.",
                bytes, address, device);
  }
  *contents = address & ~on_chip;
  return OB_OK;
}

static ob_status check_host_range(const void* pointer, uint64_t bytes) {
  const uint64_t address = (uintptr_t)pointer;
  if (pointer != NULL && address < on_chip && bytes <= on_chip - address) return OB_OK;
  return fail(OB_INVALID_ARGUMENT, "%" PRIu64 " bytes at %p are not memory of the host.", bytes,
              pointer);
}

/* ---- Queues. Work is done when a call returns, so nothing is ever pending: `chip:` marks what a
 *      chip with queues of its own does instead. ---- */

static ob_status queue_create(void* context, const ob_queue_description* wanted, ob_queue* queue) {
  ob_status status = check_device(wanted->device);
  if (status != OB_OK) return status;
  if (wanted->priority != 0) {
    return fail(OB_INVALID_ARGUMENT, "Priority %d was asked for; queues have priority 0.",
                wanted->priority);
  }
  ob_queue created = malloc(sizeof *created);
  if (created == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for a queue.");
  created->device = wanted->device; /* chip: create its queue */
  *queue = created;
  return OB_OK;
}

static ob_status queue_destroy(void* context, ob_queue queue) {
  free(queue); /* chip: wait for its queue, and destroy it */
  return OB_OK;
}

/* chip: OB_NOT_READY while work is pending. */
static ob_status queue_query(void* context, ob_queue queue) { return OB_OK; }

/* chip: wait, and report work that failed, once. */
static ob_status queue_synchronize(void* context, ob_queue queue) { return OB_OK; }

/* ---- Events ---- */

struct ob_event_t {
  int32_t device;
  bool has_time, recorded;
  uint64_t time; /* nanoseconds; chip: instead of it, its own event */
};

static ob_status event_create(void* context, const ob_event_description* wanted, ob_event* event) {
  ob_status status = check_device(wanted->device);
  if (status != OB_OK) return status;
  ob_event created = malloc(sizeof *created);
  if (created == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for an event.");
  *created = (struct ob_event_t){.device = wanted->device,
                                 .has_time = (wanted->flags & OB_EVENT_TIMING) != 0};
  *event = created; /* chip: create its event */
  return OB_OK;
}

static ob_status event_destroy(void* context, ob_event event) {
  free(event); /* chip: destroy its event, which may be pending */
  return OB_OK;
}

static ob_status event_record(void* context, ob_event event, ob_queue queue) {
  if (event->device != queue->device) {
    return fail(OB_INVALID_ARGUMENT, "An event of device %d cannot be recorded on device %d.",
                event->device, queue->device);
  }
  event->time = nanoseconds(); /* chip: record its event */
  event->recorded = true;
  return OB_OK;
}

/* chip: make the queue wait, unless the event was never recorded. */
static ob_status event_wait(void* context, ob_queue queue, ob_event event) { return OB_OK; }

/* chip: OB_NOT_READY while a recorded event has not happened. */
static ob_status event_query(void* context, ob_event event) { return OB_OK; }

/* chip: wait for the event, if it was recorded. */
static ob_status event_synchronize(void* context, ob_event event) { return OB_OK; }

static ob_status event_elapsed(void* context, ob_event start, ob_event end, double* milliseconds) {
  if (!start->has_time || !end->has_time || !start->recorded || !end->recorded ||
      start->device != end->device) {
    return fail(OB_INVALID_ARGUMENT,
                "Times are of events of one device that have OB_EVENT_TIMING and were recorded.");
  }
  /* chip: OB_NOT_READY while one has not happened, else its own time. */
  *milliseconds = 1e-6 * (double)(int64_t)(end->time - start->time);
  return OB_OK;
}

/* ---- Copies and fills ---- */

static ob_status check_copy(uint64_t bytes) {
  return bytes > 0 ? OB_OK : fail(OB_INVALID_ARGUMENT, "A copy of 0 bytes was asked for.");
}

static ob_status copy_host_to_device(void* context, ob_queue queue, ob_address destination,
                                     const void* source, uint64_t bytes) {
  uint64_t to;
  ob_status status = check_copy(bytes);
  if (status == OB_OK) status = locate(queue->device, destination, bytes, &to);
  if (status == OB_OK) status = check_host_range(source, bytes);
  return status == OB_OK ? write_to_chip(queue, to, source, bytes) : status;
}

static ob_status copy_device_to_host(void* context, ob_queue queue, void* destination,
                                     ob_address source, uint64_t bytes) {
  uint64_t from;
  ob_status status = check_copy(bytes);
  if (status == OB_OK) status = locate(queue->device, source, bytes, &from);
  if (status == OB_OK) status = check_host_range(destination, bytes);
  return status == OB_OK ? read_from_chip(queue, destination, from, bytes) : status;
}

static ob_status copy_device_to_device(void* context, ob_queue queue, ob_address destination,
                                       ob_address source, uint64_t bytes) {
  uint64_t to, from;
  ob_status status = check_copy(bytes);
  if (status == OB_OK) status = locate(queue->device, destination, bytes, &to);
  if (status == OB_OK) status = locate(queue->device, source, bytes, &from);
  return status == OB_OK ? copy_on_chip(queue, to, from, bytes) : status;
}

static ob_status fill(void* context, ob_queue queue, ob_address destination, const void* pattern,
                      uint32_t pattern_bytes, uint64_t bytes) {
  const bool power_of_two = (pattern_bytes & (pattern_bytes - 1)) == 0;
  if (pattern_bytes == 0 || pattern_bytes > 16 || !power_of_two || bytes == 0 ||
      bytes % pattern_bytes != 0) {
    return fail(OB_INVALID_ARGUMENT,
                "%u bytes cannot fill %" PRIu64
                ": patterns have 1, 2, 4, 8 or 16 bytes, and fill a multiple of that.",
                pattern_bytes, bytes);
  }
  uint64_t to;
  ob_status status = locate(queue->device, destination, bytes, &to);
  return status == OB_OK ? fill_on_chip(queue, to, pattern, pattern_bytes, bytes) : status;
}

/* ---- Matrix products by the chip's library ---- */

/* The order of a matrix for a BLAS: rows one after the other ('N') or columns ('T'), `leading`
 * elements from one to the next. 0 for any other. */
static char order_of(const ob_tensor* matrix, int64_t* leading) {
  const int64_t rows = matrix->sizes[1], columns = matrix->sizes[2];
  const bool by_rows = columns == 1 || matrix->strides[2] == 1;
  if (!by_rows && rows != 1 && matrix->strides[1] != 1) return 0;
  const int64_t inner = by_rows ? columns : rows, outer = by_rows ? rows : columns;
  *leading = outer == 1 ? inner : matrix->strides[by_rows ? 1 : 2];
  return *leading < inner ? 0 : by_rows ? 'N' : 'T';
}

/* Finds matrices, which lie in one allocation. */
static ob_status find_matrices(int32_t device, const ob_tensor* operand, matrices* found) {
  int64_t last = 0;
  for (uint32_t i = 0; i < 3; i++) last += (operand->sizes[i] - 1) * operand->strides[i];
  const uint64_t bytes = ((uint64_t)last + 1) * sizeof(float);
  found->next = operand->strides[0];
  return locate(device, operand->data, bytes, &found->address);
}

static ob_status matrix_product(void* context, ob_queue queue, const ob_matrix_product* d) {
  const ob_tensor *a = d->a, *b = d->b, *out = d->out;
  const bool in_place = d->added != NULL && d->added->data == out->data;
  product p = {.batch = out->sizes[0],
               .rows = out->sizes[1],
               .columns = out->sizes[2],
               .depth = a->sizes[2],
               .alpha = (float)d->alpha[0],
               .beta = in_place ? (float)d->beta[0] : 0};
  p.a.order = order_of(a, &p.a.leading);
  p.b.order = order_of(b, &p.b.leading);
  p.out.order = order_of(out, &p.out.leading);
  if (products_by_host || a->dtype != OB_DTYPE_FLOAT32 || d->bias != NULL ||
      d->activation != OB_ACTIVATION_NONE || (d->added != NULL && !in_place) ||
      (d->flags & ~(OB_LIBRARY_REDUCED_PRECISION | OB_LIBRARY_DETERMINISTIC)) != 0 ||
      p.a.order == 0 || p.b.order == 0 || p.out.order != 'N') {
    return fail(OB_UNSUPPORTED, "The library multiplies dense matrices of float32.");
  }
  if (d->workspace_query != NULL) {
    *d->workspace_query = 0; /* chip: bytes of device memory that the library needs */
    return OB_OK;
  }
  ob_status status = find_matrices(queue->device, a, &p.a);
  if (status == OB_OK) status = find_matrices(queue->device, b, &p.b);
  if (status == OB_OK) status = find_matrices(queue->device, out, &p.out);
  return status == OB_OK ? multiply_on_chip(queue, &p) : status;
}

/* ---- The table ---- */

__attribute__((visibility("default"))) const ob_driver* ob_driver_table(void) {
  static const ob_driver table = {
      .major = OB_VERSION_MAJOR,
      .minor = OB_VERSION_MINOR,
      .struct_size = sizeof(ob_driver),
      .name = "mychip",
      .last_error = last_error,
      .initialize = initialize,
      .finalize = finalize,
      .device_count = device_count,
      .device_properties = device_properties,
      .allocate = allocate,
      .deallocate = deallocate,
      .memory_info = memory_info,
      .queue_create = queue_create,
      .queue_destroy = queue_destroy,
      .queue_query = queue_query,
      .queue_synchronize = queue_synchronize,
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
      .fill = fill,
      .matrix_product = matrix_product,
  };
  return &table;
}
