/*
 * The smallest driver: a device in memory of the host, whose calls have ended their work when they
 * return. It takes correct calls for granted; tests/drivers/minimal_driver.c checks them.
 */
#include <outboard/driver.h>
#include <stdlib.h>
#include <string.h>

#define CALL(name, work, ...) \
  static ob_status name(void* context, __VA_ARGS__) { return work, OB_OK; }

static const ob_device_properties card = {sizeof card, .name = "my chip", .alignment = 64,
                                          .total_memory = 1 << 30};
static const char* last_error(void* context) { return "the host has no memory left"; }
static ob_status initialize(void* context) { return OB_OK; }
static ob_status properties(void* context, int32_t device, ob_device_properties* to) {
  memcpy(to, &card, to->struct_size < sizeof card ? to->struct_size : sizeof card);
  return OB_OK;
}
static ob_status allocate(void* context, const ob_allocation* wanted, ob_address* address) {
  *address = (ob_address)aligned_alloc(64, (wanted->bytes + 63) / 64 * 64);
  return *address != 0 ? OB_OK : OB_OUT_OF_MEMORY;
}
static ob_status fill(void* context, ob_queue q, ob_address to, const void* pattern, uint32_t width,
                      uint64_t n) {
  for (uint64_t i = 0; i < n; i += width) memcpy((char*)to + i, pattern, width);
  return OB_OK;
}
CALL(device_count, *count = 1, int32_t* count)
CALL(deallocate, free((void*)address), int32_t device, ob_address address)
CALL(queue_create, *q = malloc(1), const ob_queue_description* wanted, ob_queue* q)
CALL(queue_destroy, free(q), ob_queue q)
CALL(queue_done, (void)q, ob_queue q)
CALL(event_create, *e = malloc(1), const ob_event_description* wanted, ob_event* e)
CALL(event_destroy, free(e), ob_event e)
CALL(event_done, (void)e, ob_event e)
CALL(record, (void)e, ob_event e, ob_queue q)
CALL(wait, (void)e, ob_queue q, ob_event e)
CALL(elapsed, *ms = 0, ob_event start, ob_event end, double* ms)
CALL(upload, memcpy((void*)to, from, n), ob_queue q, ob_address to, const void* from, uint64_t n)
CALL(download, memcpy(to, (void*)from, n), ob_queue q, void* to, ob_address from, uint64_t n)
CALL(copy, memcpy((void*)to, (void*)at, n), ob_queue q, ob_address to, ob_address at, uint64_t n)

/* clang-format off */
const ob_driver* ob_driver_table(void) {
  static const ob_driver table = {
      OB_VERSION_MAJOR, OB_VERSION_MINOR, sizeof table, "mychip",
      .last_error = last_error, .initialize = initialize, .device_count = device_count,
      .device_properties = properties, .allocate = allocate, .deallocate = deallocate,
      .queue_create = queue_create, .queue_destroy = queue_destroy, .queue_query = queue_done,
      .queue_synchronize = queue_done, .event_create = event_create, .event_destroy = event_destroy,
      .event_record = record, .event_wait = wait, .event_query = event_done,
      .event_synchronize = event_done, .event_elapsed = elapsed, .copy_host_to_device = upload,
      .copy_device_to_host = download, .copy_device_to_device = copy, .fill = fill};
  return &table;
}
