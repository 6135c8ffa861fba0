/* Transfers. A 1-D copy is one row of a 2-D copy. */
#include <string.h>

#include "command.h"

/* Bytes from the first to the last byte of all rows. */
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
  return enqueue(queue, &(command){.kind = COPY,
                                   .copy = {.destination = destination,
                                            .source = source,
                                            .destination_pitch = destination_pitch,
                                            .source_pitch = source_pitch,
                                            .row_bytes = row_bytes,
                                            .rows = rows}});
}

static ob_status copy_host_to_device_2d(void* context, ob_queue queue, ob_address destination,
                                        uint64_t destination_pitch, const void* source,
                                        uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
  char* to;
  ob_status status =
      locate_rows(queue->device, destination, destination_pitch, row_bytes, rows, &to);
  if (status == OB_OK) status = check_host_rows(source, source_pitch, row_bytes, rows);
  if (status != OB_OK) return status;
  return enqueue_copy(queue, to, destination_pitch, source, source_pitch, row_bytes, rows);
}

static ob_status copy_device_to_host_2d(void* context, ob_queue queue, void* destination,
                                        uint64_t destination_pitch, ob_address source,
                                        uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
  char* from;
  ob_status status = locate_rows(queue->device, source, source_pitch, row_bytes, rows, &from);
  if (status == OB_OK) status = check_host_rows(destination, destination_pitch, row_bytes, rows);
  if (status != OB_OK) return status;
  return enqueue_copy(queue, destination, destination_pitch, from, source_pitch, row_bytes, rows);
}

/* Every worker accesses the memory of every device, so peers need nothing special. */
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

static ob_status copy_device_to_device_2d(void* context, ob_queue queue, ob_address destination,
                                          uint64_t destination_pitch, ob_address source,
                                          uint64_t source_pitch, uint64_t row_bytes,
                                          uint64_t rows) {
  return copy_between_devices(queue, queue->device, destination, destination_pitch, queue->device,
                              source, source_pitch, row_bytes, rows);
}

static ob_status copy_host_to_device(void* context, ob_queue queue, ob_address destination,
                                     const void* source, uint64_t bytes) {
  return copy_host_to_device_2d(context, queue, destination, bytes, source, bytes, bytes, 1);
}

static ob_status copy_device_to_host(void* context, ob_queue queue, void* destination,
                                     ob_address source, uint64_t bytes) {
  return copy_device_to_host_2d(context, queue, destination, bytes, source, bytes, bytes, 1);
}

static ob_status copy_device_to_device(void* context, ob_queue queue, ob_address destination,
                                       ob_address source, uint64_t bytes) {
  return copy_device_to_device_2d(context, queue, destination, bytes, source, bytes, bytes, 1);
}

static ob_status copy_peer(void* context, ob_queue queue, int32_t destination_device,
                           ob_address destination, int32_t source_device, ob_address source,
                           uint64_t bytes) {
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

static ob_status peer_access(void* context, int32_t index, int32_t peer, int32_t* direct) {
  ob_status status = check_device(index);
  if (status == OB_OK) status = check_device(peer);
  if (status == OB_OK) *direct = 1;
  return status;
}

static ob_status fill(void* context, ob_queue queue, ob_address destination, const void* pattern,
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
  return status == OB_OK ? enqueue(queue, &work) : status;
}

ob_status host_callback(void* context, ob_queue queue, ob_host_function function, void* argument) {
  if (function == NULL) return fail(OB_INVALID_ARGUMENT, "The callback is NULL.");
  return enqueue(queue, &(command){.kind = CALLBACK,
                                   .callback = {.function = function, .argument = argument}});
}

void set_transfer_functions(ob_driver* table) {
  table->copy_host_to_device = copy_host_to_device;
  table->copy_device_to_host = copy_device_to_host;
  table->copy_device_to_device = copy_device_to_device;
  table->copy_peer = copy_peer;
  table->copy_host_to_device_2d = copy_host_to_device_2d;
  table->copy_device_to_host_2d = copy_device_to_host_2d;
  table->copy_device_to_device_2d = copy_device_to_device_2d;
  table->peer_access = peer_access;
  table->fill = fill;
  table->host_callback = host_callback;
}
