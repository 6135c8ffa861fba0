/*
 * The least that is a driver: one device of ordinary memory that the host must not touch, the
 * required functions alone, and every call done when it returns. For tests, and to begin one's own
 * with; torch_outboard/drivers/host is the driver that does everything.
 *
 *     cc -std=c11 -shared -fPIC -I csrc/include tests/drivers/minimal_driver.c -o libob_minimal.so
 */
#define _GNU_SOURCE
#include <outboard/driver.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Failures ---- */

static _Thread_local char message[256];

__attribute__((format(printf, 2, 3))) static ob_status fail(ob_status status, const char* format,
                                                            ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return status;
}

static const char* last_error(void* context) { return message; }

/* ---- The device ---- */

enum { ALIGNMENT = 64 };
static const uint64_t total_memory = (uint64_t)1 << 30;

static ob_status check_device(int32_t device) {
  return device == 0 ? OB_OK : fail(OB_INVALID_ARGUMENT, "There is no device %d.", device);
}

static ob_status initialize(void* context) { return OB_OK; }

static ob_status device_count(void* context, int32_t* count) {
  *count = 1;
  return OB_OK;
}

static ob_status device_properties(void* context, int32_t device,
                                   ob_device_properties* properties) {
  ob_status status = check_device(device);
  if (status != OB_OK) return status;
  ob_device_properties ours = {.struct_size = properties->struct_size,
                               .name = "Minimal device",
                               .vendor = "torch_outboard",
                               .driver_version = "1",
                               .kind = OB_DEVICE_OTHER,
                               .addressing = OB_ADDRESSING_POINTER,
                               .host_access = OB_HOST_ACCESS_NONE,
                               .total_memory = total_memory,
                               .alignment = ALIGNMENT};
  size_t size = properties->struct_size < sizeof ours ? properties->struct_size : sizeof ours;
  memcpy(properties, &ours, size);
  return OB_OK;
}

/* ---- Memory: an address is a pointer with a bit that no pointer of the host has, so that a host
 *      that dereferences it is stopped at once ---- */

static const uint64_t device_bit = (uint64_t)1 << 62;

static void* at(ob_address address) { return (void*)(uintptr_t)(address & ~device_bit); }

static ob_status allocate(void* context, const ob_allocation* wanted, ob_address* address) {
  uint64_t bytes = wanted->bytes;
  ob_status status = check_device(wanted->device);
  if (status != OB_OK) return status;
  if (bytes == 0) return fail(OB_INVALID_ARGUMENT, "An allocation of 0 bytes.");
  if (bytes > total_memory) return fail(OB_OUT_OF_MEMORY, "The device has 1 GiB.");
  void* pointer = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  if (pointer == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for the device.");
  *address = (uint64_t)(uintptr_t)pointer | device_bit;
  return OB_OK;
}

static ob_status deallocate(void* context, int32_t device, ob_address address) {
  ob_status status = check_device(device);
  if (status == OB_OK) free(at(address));
  return status;
}

/* ---- Queues, on which nothing is ever pending ---- */

struct ob_queue_t {
  int32_t device;
};

static ob_status queue_create(void* context, const ob_queue_description* wanted, ob_queue* queue) {
  ob_status status = check_device(wanted->device);
  if (status != OB_OK) return status;
  if (wanted->priority != 0) {
    return fail(OB_INVALID_ARGUMENT, "There is no priority %d.", wanted->priority);
  }
  *queue = calloc(1, sizeof **queue);
  return *queue != NULL ? OB_OK : fail(OB_OUT_OF_MEMORY, "There is no memory for a queue.");
}

static ob_status queue_destroy(void* context, ob_queue queue) {
  free(queue);
  return OB_OK;
}

static ob_status queue_query(void* context, ob_queue queue) { return OB_OK; }
static ob_status queue_synchronize(void* context, ob_queue queue) { return OB_OK; }

/* ---- Events, which have happened as soon as they are recorded ---- */

struct ob_event_t {
  int timing, recorded;
  struct timespec time;
};

static ob_status event_create(void* context, const ob_event_description* wanted, ob_event* event) {
  ob_status status = check_device(wanted->device);
  if (status != OB_OK) return status;
  *event = calloc(1, sizeof **event);
  if (*event == NULL) return fail(OB_OUT_OF_MEMORY, "There is no memory for an event.");
  (*event)->timing = (wanted->flags & OB_EVENT_TIMING) != 0;
  return OB_OK;
}

static ob_status event_destroy(void* context, ob_event event) {
  free(event);
  return OB_OK;
}

static ob_status event_record(void* context, ob_event event, ob_queue queue) {
  clock_gettime(CLOCK_MONOTONIC, &event->time);
  event->recorded = 1;
  return OB_OK;
}

static ob_status event_wait(void* context, ob_queue queue, ob_event event) { return OB_OK; }
static ob_status event_query(void* context, ob_event event) { return OB_OK; }
static ob_status event_synchronize(void* context, ob_event event) { return OB_OK; }

static ob_status event_elapsed(void* context, ob_event start, ob_event end, double* milliseconds) {
  if (!start->timing || !end->timing || !start->recorded || !end->recorded) {
    return fail(OB_INVALID_ARGUMENT, "Both events need OB_EVENT_TIMING and have to be recorded.");
  }
  *milliseconds = 1e3 * (double)(end->time.tv_sec - start->time.tv_sec) +
                  1e-6 * (double)(end->time.tv_nsec - start->time.tv_nsec);
  return OB_OK;
}

/* ---- Transfers ---- */

static ob_status copy(void* destination, const void* source, uint64_t bytes) {
  if (bytes == 0) return fail(OB_INVALID_ARGUMENT, "A copy of 0 bytes.");
  memcpy(destination, source, bytes);
  return OB_OK;
}

static ob_status copy_host_to_device(void* context, ob_queue queue, ob_address destination,
                                     const void* source, uint64_t bytes) {
  return copy(at(destination), source, bytes);
}

static ob_status copy_device_to_host(void* context, ob_queue queue, void* destination,
                                     ob_address source, uint64_t bytes) {
  return copy(destination, at(source), bytes);
}

static ob_status copy_device_to_device(void* context, ob_queue queue, ob_address destination,
                                       ob_address source, uint64_t bytes) {
  return copy(at(destination), at(source), bytes);
}

static ob_status fill(void* context, ob_queue queue, ob_address destination, const void* pattern,
                      uint32_t pattern_bytes, uint64_t bytes) {
  int one_bit = pattern_bytes != 0 && (pattern_bytes & (pattern_bytes - 1)) == 0;
  if (!one_bit || pattern_bytes > 16 || bytes == 0 || bytes % pattern_bytes != 0) {
    return fail(OB_INVALID_ARGUMENT, "A pattern of %u bytes cannot fill %llu bytes.", pattern_bytes,
                (unsigned long long)bytes);
  }
  char* to = at(destination);
  for (uint64_t i = 0; i < bytes; i += pattern_bytes) memcpy(to + i, pattern, pattern_bytes);
  return OB_OK;
}

__attribute__((visibility("default"))) const ob_driver* ob_driver_table(void) {
  static const ob_driver table = {
      .major = OB_VERSION_MAJOR,
      .minor = OB_VERSION_MINOR,
      .struct_size = sizeof(ob_driver),
      .name = "minimal",
      .last_error = last_error,
      .initialize = initialize,
      .device_count = device_count,
      .device_properties = device_properties,
      .allocate = allocate,
      .deallocate = deallocate,
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
  };
  return &table;
}
