/* Objects of the wrapped driver that are alive, and checks that callers use only those. */
#define _GNU_SOURCE
#include <common/system.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"

const char* const object_kind_names[OBJECT_KIND_COUNT] = {
    "allocations", "pinned",     "queues",  "events",    "programs",     "kernels",
    "graphs",      "registered", "imports", "addresses", "communicators"};

enum { MAX_DEVICES = 64 };

/* Sorted by key, so that an address finds its allocation. */
typedef struct object_list {
  object* objects;
  size_t count, capacity;
} object_list;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object_list alive[OBJECT_KIND_COUNT];
static uint64_t bytes_of_device[MAX_DEVICES];
static bool adopts_host_memory[MAX_DEVICES];
static atomic_bool tracking = true;
static atomic_uint_fast64_t misuse_count;

static bool is_device(int32_t device) { return device >= 0 && device < MAX_DEVICES; }

/* The number of objects with a key of at most `key`. With the lock held, like all below. */
static size_t position_after(const object_list* list, uint64_t key) {
  size_t low = 0, high = list->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (list->objects[middle].key <= key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static object* find(object_kind kind, uint64_t key) {
  size_t after = position_after(&alive[kind], key);
  if (after == 0 || alive[kind].objects[after - 1].key != key) return NULL;
  return &alive[kind].objects[after - 1];
}

void add_object(object_kind kind, object added) {
  pthread_mutex_lock(&lock);
  object_list* list = &alive[kind];
  if (list->count == list->capacity) {
    size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
    object* larger = realloc(list->objects, capacity * sizeof(object));
    if (larger == NULL) {
      tracking = false; /* a list with a hole would accuse the innocent */
      pthread_mutex_unlock(&lock);
      return;
    }
    list->objects = larger;
    list->capacity = capacity;
  }
  size_t i = position_after(list, added.key);
  memmove(&list->objects[i + 1], &list->objects[i], (list->count - i) * sizeof(object));
  list->objects[i] = added;
  list->count++;
  if (kind == ALLOCATION && is_device(added.device)) bytes_of_device[added.device] += added.bytes;
  pthread_mutex_unlock(&lock);
}

bool remove_object(object_kind kind, uint64_t key, object* removed) {
  pthread_mutex_lock(&lock);
  object_list* list = &alive[kind];
  object* found = find(kind, key);
  if (found != NULL) {
    *removed = *found;
    size_t i = (size_t)(found - list->objects);
    list->count--;
    memmove(found, found + 1, (list->count - i) * sizeof(object));
    if (kind == ALLOCATION && is_device(removed->device)) {
      bytes_of_device[removed->device] -= removed->bytes;
    }
  }
  pthread_mutex_unlock(&lock);
  return found != NULL;
}

uint64_t live_objects(object_kind kind) {
  pthread_mutex_lock(&lock);
  uint64_t count = alive[kind].count;
  pthread_mutex_unlock(&lock);
  return count;
}

bool live_object_of(object_kind kind, int32_t device, size_t index, uint64_t* key) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < alive[kind].count && !found; i++) {
    if (alive[kind].objects[i].device != device) continue;
    found = index-- == 0;
    *key = alive[kind].objects[i].key;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

uint64_t live_bytes(int32_t device) {
  if (!is_device(device)) return 0;
  pthread_mutex_lock(&lock);
  uint64_t bytes = bytes_of_device[device];
  pthread_mutex_unlock(&lock);
  return bytes;
}

size_t describe_objects(char* text, size_t size) {
  size_t length = 0;
  pthread_mutex_lock(&lock);
  for (int kind = 0; kind < OBJECT_KIND_COUNT; kind++) {
    for (size_t i = 0; i < alive[kind].count; i++) {
      object shown = alive[kind].objects[i];
      int written =
          snprintf(length < size ? text + length : NULL, length < size ? size - length : 0,
                   "%s 0x%" PRIx64 " device %" PRId32 " %" PRIu64 " bytes\n",
                   object_kind_names[kind], shown.key, shown.device, shown.bytes);
      length += (size_t)written;
    }
  }
  pthread_mutex_unlock(&lock);
  return length;
}

void set_adopts_host_memory(int32_t device, bool adopts) {
  if (is_device(device)) adopts_host_memory[device] = adopts;
}

/* ---- Checks ---- */

__attribute__((format(printf, 1, 2))) static ob_status misuse(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!tracking) return OB_OK;
  atomic_fetch_add(&misuse_count, 1);
  return refuse(OB_INVALID_ARGUMENT, "%s", text);
}

uint64_t misuses(void) { return atomic_load(&misuse_count); }

ob_status not_alive(object_kind kind, uint64_t key) {
  return misuse("0x%" PRIx64 " is not among the live %s: it was destroyed or never created.", key,
                object_kind_names[kind]);
}

/* The device of an object through `device`, if it is not NULL. */
static ob_status find_live(object_kind kind, uint64_t key, int32_t* device) {
  pthread_mutex_lock(&lock);
  object* found = find(kind, key);
  if (found != NULL && device != NULL) *device = found->device;
  pthread_mutex_unlock(&lock);
  return found != NULL ? OB_OK : not_alive(kind, key);
}

ob_status check_live(object_kind kind, uint64_t key) { return find_live(kind, key, NULL); }

ob_status check_queue(ob_queue queue) {
  int32_t device = -1;
  return find_live(QUEUE, KEY(queue), &device) ?: use_device(device);
}

ob_status check_event(ob_event event) {
  int32_t device = -1;
  return find_live(EVENT, KEY(event), &device) ?: check_lost(device);
}

ob_status check_limit(int32_t device, uint64_t bytes) {
  uint64_t limit = memory_limit(), used = live_bytes(device);
  if (limit == 0 || (used <= limit && bytes <= limit - used)) return OB_OK;
  return refuse(OB_OUT_OF_MEMORY,
                "Fault injection limits device %" PRId32 " to %" PRIu64 " bytes; %" PRIu64
                " are in use, and %" PRIu64 " more were asked for.",
                device, limit, used, bytes);
}

/* The object of this kind that holds the byte at `address`; zeros if there is none. */
static object find_around(object_kind kind, uint64_t address) {
  pthread_mutex_lock(&lock);
  size_t after = position_after(&alive[kind], address);
  object owner = after == 0 ? (object){0} : alive[kind].objects[after - 1];
  pthread_mutex_unlock(&lock);
  return address - owner.key < owner.bytes ? owner : (object){0};
}

static object find_memory(ob_address address) {
  object owner = find_around(ALLOCATION, address);
  if (owner.bytes == 0) owner = find_around(IMPORT, address);
  return owner.bytes != 0 ? owner : find_around(ADDRESSES, address);
}

ob_status check_unregistered(const void* pointer, uint64_t bytes) {
  if (find_around(REGISTERED, KEY(pointer)).bytes == 0 &&
      (bytes == 0 || find_around(REGISTERED, KEY(pointer) + bytes - 1).bytes == 0)) {
    return OB_OK;
  }
  return misuse("%" PRIu64 " bytes at %p are registered already.", bytes, pointer);
}

ob_status check_start_on(int32_t device, ob_address address) {
  object owner = find_memory(address);
  if (owner.bytes != 0 && owner.key == address && owner.device == device) return OB_OK;
  return misuse("0x%" PRIx64 " is not the start of memory of device %" PRId32 ".", address, device);
}

ob_status check_reserved(int32_t device, ob_address address, uint64_t bytes) {
  object owner = find_around(ADDRESSES, address);
  uint64_t offset = address - owner.key;
  if (bytes != 0 && offset < owner.bytes && bytes <= owner.bytes - offset &&
      owner.device == device) {
    return OB_OK;
  }
  return misuse("%" PRIu64 " bytes at 0x%" PRIx64 " are no reserved addresses of device %" PRId32
                ".",
                bytes, address, device);
}

ob_status check_given_back(int32_t device) {
  static const object_kind kinds[] = {ALLOCATION, IMPORT, ADDRESSES, PROGRAM};
  uint64_t key;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (!live_object_of(kinds[i], device, 0, &key)) continue;
    return misuse("Device %" PRId32 " cannot be reset: 0x%" PRIx64 " is among its live %s.", device,
                  key, object_kind_names[kinds[i]]);
  }
  return OB_OK;
}

ob_status check_range_on(int32_t device, ob_address address, uint64_t bytes) {
  object owner = find_memory(address);
  uint64_t offset = address - owner.key;
  if (offset < owner.bytes) {
    if (owner.device == device && bytes <= owner.bytes - offset) return OB_OK;
  } else if (address != 0 && is_device(device) && adopts_host_memory[device]) {
    return OB_OK;
  }
  return misuse("%" PRIu64 " bytes at 0x%" PRIx64
                " do not lie in a live allocation of device %" PRId32 ".",
                bytes, address, device);
}

ob_status check_range(ob_queue queue, ob_address address, uint64_t bytes) {
  int32_t device = -1;
  ob_status status = find_live(QUEUE, KEY(queue), &device);
  return status == OB_OK ? check_range_on(device, address, bytes) : status;
}

ob_status check_rows(ob_queue queue, ob_address address, uint64_t pitch, uint64_t row_bytes,
                     uint64_t rows) {
  if (rows == 0) return misuse("A copy of 0 rows.");
  uint64_t before, bytes;
  if (__builtin_mul_overflow(rows - 1, pitch, &before) ||
      __builtin_add_overflow(before, row_bytes, &bytes)) {
    return misuse("%" PRIu64 " rows with a pitch of %" PRIu64 " bytes are no range of memory.",
                  rows, pitch);
  }
  return check_range(queue, address, bytes);
}

ob_status check_launch(ob_queue queue, const ob_launch* launch) {
  ob_status status = check_live(KERNEL, KEY(launch->kernel));
  for (uint32_t i = 0; i < launch->argument_count && status == OB_OK; i++) {
    const ob_argument* argument = ob_argument_of(launch, i);
    if (argument->kind == OB_ARGUMENT_ADDRESS) {
      status = check_range(queue, argument->address, 1);
    }
  }
  ob_event events[] = {OB_COVERS(launch, start) ? launch->start : NULL,
                       OB_COVERS(launch, end) ? launch->end : NULL};
  for (int i = 0; i < 2 && status == OB_OK; i++) {
    if (events[i] != NULL) status = check_event(events[i]);
  }
  return status;
}

/* An operand, or NULL for none. */
static ob_status check_tensor(ob_queue queue, const ob_tensor* tensor) {
  if (tensor == NULL) return OB_OK;
  if (tensor->dimensions > 8)
    return misuse("A tensor has %" PRIu32 " dimensions.", tensor->dimensions);
  uint64_t elements = 1;
  for (uint32_t d = 0; d < tensor->dimensions; d++) {
    if (tensor->sizes[d] < 1 || tensor->strides[d] < 0) {
      return misuse("A tensor has size %" PRId64 " and stride %" PRId64 " in dimension %" PRIu32
                    ".",
                    tensor->sizes[d], tensor->strides[d], d);
    }
    elements += (uint64_t)(tensor->sizes[d] - 1) * (uint64_t)tensor->strides[d];
  }
  return check_range(queue, tensor->data, elements * dtype_bytes(tensor->dtype));
}

static ob_status check_workspace(ob_queue queue, ob_address workspace, uint64_t bytes) {
  return bytes == 0 ? OB_OK : check_range(queue, workspace, bytes);
}

ob_status check_matrix_product(ob_queue queue, const ob_matrix_product* description) {
  return check_queue(queue) ?: check_tensor(queue, description->a)
      ?: check_tensor(queue, description->b) ?: check_tensor(queue, description->out)
      ?: check_tensor(queue, description->added) ?: check_tensor(queue, description->bias)
      ?: check_workspace(queue, description->workspace, description->workspace_bytes);
}

ob_status check_convolution(ob_queue queue, const ob_convolution* description) {
  return check_queue(queue) ?: check_tensor(queue, description->input)
      ?: check_tensor(queue, description->weight) ?: check_tensor(queue, description->output)
      ?: check_tensor(queue, description->bias)
      ?: check_workspace(queue, description->workspace, description->workspace_bytes);
}
