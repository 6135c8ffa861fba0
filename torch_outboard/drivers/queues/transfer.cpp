// Transfers. A 1-D copy is one row of a 2-D copy.
#include <cstring>

#include "command.h"

namespace queues {
namespace {

using drivers::extent;

// Rows of a device for a command.
char* locate_rows(int32_t device, ob_address address, uint64_t pitch, uint64_t row_bytes,
                  uint64_t rows) {
  char* contents = nullptr;
  drivers::check(locate(device, address, extent(pitch, row_bytes, rows), &contents));
  return contents;
}

ob_status copy_host_to_device_2d(ob_queue queue, ob_address destination, uint64_t destination_pitch,
                                 const void* source, uint64_t source_pitch, uint64_t row_bytes,
                                 uint64_t rows) {
  char* to = locate_rows(device_of(queue), destination, destination_pitch, row_bytes, rows);
  drivers::check(check_host_range(source, extent(source_pitch, row_bytes, rows)));
  enqueue(queue, Copy{to, destination_pitch, static_cast<const char*>(source), source_pitch,
                      row_bytes, rows});
  return OB_OK;
}

ob_status copy_device_to_host_2d(ob_queue queue, void* destination, uint64_t destination_pitch,
                                 ob_address source, uint64_t source_pitch, uint64_t row_bytes,
                                 uint64_t rows) {
  const char* from = locate_rows(device_of(queue), source, source_pitch, row_bytes, rows);
  drivers::check(check_host_range(destination, extent(destination_pitch, row_bytes, rows)));
  enqueue(queue, Copy{static_cast<char*>(destination), destination_pitch, from, source_pitch,
                      row_bytes, rows});
  return OB_OK;
}

ob_status copy_device_to_device_2d(ob_queue queue, ob_address destination,
                                   uint64_t destination_pitch, ob_address source,
                                   uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
  const int32_t device = device_of(queue);
  char* to = locate_rows(device, destination, destination_pitch, row_bytes, rows);
  const char* from = locate_rows(device, source, source_pitch, row_bytes, rows);
  enqueue(queue, Copy{to, destination_pitch, from, source_pitch, row_bytes, rows});
  return OB_OK;
}

ob_status copy_host_to_device(ob_queue queue, ob_address destination, const void* source,
                              uint64_t bytes) {
  return copy_host_to_device_2d(queue, destination, bytes, source, bytes, bytes, 1);
}

ob_status copy_device_to_host(ob_queue queue, void* destination, ob_address source,
                              uint64_t bytes) {
  return copy_device_to_host_2d(queue, destination, bytes, source, bytes, bytes, 1);
}

ob_status copy_device_to_device(ob_queue queue, ob_address destination, ob_address source,
                                uint64_t bytes) {
  return copy_device_to_device_2d(queue, destination, bytes, source, bytes, bytes, 1);
}

// Every worker accesses the memory of every device, so peers need nothing special.
ob_status copy_peer(ob_queue queue, int32_t destination_device, ob_address destination,
                    int32_t source_device, ob_address source, uint64_t bytes) {
  drivers::check_peers(device_of(queue), destination_device, source_device);
  drivers::check(check_device(destination_device));
  drivers::check(check_device(source_device));
  char* to = locate_rows(destination_device, destination, bytes, bytes, 1);
  const char* from = locate_rows(source_device, source, bytes, bytes, 1);
  enqueue(queue, Copy{to, bytes, from, bytes, bytes, 1});
  return OB_OK;
}

ob_status peer_access(int32_t index, int32_t peer, int32_t* direct) {
  drivers::check(check_device(index));
  drivers::check(check_device(peer));
  *direct = 1;
  return OB_OK;
}

ob_status fill(ob_queue queue, ob_address destination, const void* pattern, uint32_t pattern_bytes,
               uint64_t bytes) {
  drivers::check_pattern(pattern_bytes, bytes);
  Fill work = {nullptr, bytes, pattern_bytes, {}};
  std::memcpy(work.pattern, pattern, pattern_bytes);
  drivers::check(locate(device_of(queue), destination, bytes, &work.destination));
  enqueue(queue, work);
  return OB_OK;
}

ob_status host_callback(ob_queue queue, ob_host_function function, void* argument) {
  if (function == nullptr) fail(OB_INVALID_ARGUMENT, "The callback is NULL.");
  enqueue(queue, Callback{function, argument});
  return OB_OK;
}

}  // namespace

void set_transfer_functions(ob_driver& table) {
  OB_SET(table, copy_host_to_device);
  OB_SET(table, copy_device_to_host);
  OB_SET(table, copy_device_to_device);
  OB_SET(table, copy_peer);
  OB_SET(table, copy_host_to_device_2d);
  OB_SET(table, copy_device_to_host_2d);
  OB_SET(table, copy_device_to_device_2d);
  OB_SET(table, peer_access);
  OB_SET(table, fill);
  OB_SET(table, host_callback);
}

}  // namespace queues

ob_status host_callback(void* context, ob_queue queue, ob_host_function function, void* argument) {
  return drivers::Guarded<queues::host_callback>::call(context, queue, function, argument);
}
