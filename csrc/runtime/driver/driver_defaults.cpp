#include "runtime/driver/driver_defaults.h"

#include <cstdlib>

#include "runtime/driver/driver_requests.h"
#include "runtime/streams/wait.h"

namespace outboard {
namespace {

// The context is the driver's. There is one driver per process.
const ob_driver* g_table = nullptr;

ob_status no_finalize(void* context) { return OB_OK; }

// What is asked for was zero before: nothing is known.
ob_status no_device_state(void*, int32_t, ob_device_state*) { return OB_OK; }
ob_status no_kernel_attributes(void*, ob_kernel, ob_kernel_attributes*) { return OB_OK; }

ob_status no_peer_access(void*, int32_t, int32_t, int32_t* direct) {
  *direct = 0;
  return OB_OK;
}

ob_status memory_info_from_properties(void* context, int32_t device, uint64_t* free_bytes,
                                      uint64_t* total_bytes) {
  ob_device_properties properties = {};
  properties.struct_size = sizeof(properties);
  const ob_status status = g_table->device_properties(context, device, &properties);
  *free_bytes = *total_bytes = properties.total_memory;
  return status;
}

ob_status pageable_host_allocate(void* context, const ob_host_allocation* wanted, void** pointer) {
  constexpr size_t kPage = 4096;
  *pointer = std::aligned_alloc(kPage, (wanted->bytes + kPage - 1) / kPage * kPage);
  return *pointer != nullptr ? OB_OK : OB_OUT_OF_MEMORY;
}

ob_status pageable_host_deallocate(void* context, void* pointer) {
  std::free(pointer);
  return OB_OK;
}

ob_status queue_as_native_handle(void* context, ob_queue queue, void** handle) {
  *handle = queue;
  return OB_OK;
}

// Both queues are unknown here, so this one waits; a driver that can do better brings its own.
ob_status peer_copy_through_host(void* context, ob_queue queue, int32_t destination_device,
                                 ob_address destination, int32_t source_device, ob_address source,
                                 uint64_t bytes) {
  void* host = nullptr;
  ob_status status = allocate_host_memory(*g_table, bytes, &host);
  if (status != OB_OK) return status;
  ob_queue other_queue = nullptr;
  // Earlier work on `queue` may produce the source or still read the destination.
  status = wait_for_queue(*g_table, queue);
  if (status == OB_OK) status = create_queue(*g_table, source_device, 0, &other_queue);
  if (status == OB_OK) {
    status = g_table->copy_device_to_host(context, other_queue, host, source, bytes);
    if (status == OB_OK) status = wait_for_queue(*g_table, other_queue);
    const ob_status destroyed = g_table->queue_destroy(context, other_queue);
    if (status == OB_OK) status = destroyed;
  }
  if (status == OB_OK) status = create_queue(*g_table, destination_device, 0, &other_queue);
  if (status == OB_OK) {
    status = g_table->copy_host_to_device(context, other_queue, destination, host, bytes);
    if (status == OB_OK) status = wait_for_queue(*g_table, other_queue);
    const ob_status destroyed = g_table->queue_destroy(context, other_queue);
    if (status == OB_OK) status = destroyed;
  }
  const ob_status freed = g_table->host_deallocate(context, host);
  return status != OB_OK ? status : freed;
}

ob_status rows_host_to_device(void* context, ob_queue queue, ob_address destination,
                              uint64_t destination_pitch, const void* source, uint64_t source_pitch,
                              uint64_t row_bytes, uint64_t rows) {
  ob_status status = OB_OK;
  for (uint64_t row = 0; row < rows && status == OB_OK; ++row) {
    status = g_table->copy_host_to_device(context, queue, destination + row * destination_pitch,
                                          static_cast<const char*>(source) + row * source_pitch,
                                          row_bytes);
  }
  return status;
}

ob_status rows_device_to_host(void* context, ob_queue queue, void* destination,
                              uint64_t destination_pitch, ob_address source, uint64_t source_pitch,
                              uint64_t row_bytes, uint64_t rows) {
  ob_status status = OB_OK;
  for (uint64_t row = 0; row < rows && status == OB_OK; ++row) {
    status = g_table->copy_device_to_host(context, queue,
                                          static_cast<char*>(destination) + row * destination_pitch,
                                          source + row * source_pitch, row_bytes);
  }
  return status;
}

ob_status rows_device_to_device(void* context, ob_queue queue, ob_address destination,
                                uint64_t destination_pitch, ob_address source,
                                uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
  ob_status status = OB_OK;
  for (uint64_t row = 0; row < rows && status == OB_OK; ++row) {
    status = g_table->copy_device_to_device(context, queue, destination + row * destination_pitch,
                                            source + row * source_pitch, row_bytes);
  }
  return status;
}

ob_status callback_after_waiting(void* context, ob_queue queue, ob_host_function function,
                                 void* argument) {
  const ob_status status = wait_for_queue(*g_table, queue);
  if (status == OB_OK) function(argument);
  return status;
}

template <class Function>
void fill(Function& field, Function value) noexcept {
  if (field == nullptr) field = value;
}

}  // namespace

// `device_synchronize` has no default here, as stream.cpp knows the queues, and `event_time` none,
// as event.cpp knows the devices of events.
void fill_driver_defaults(ob_driver& table) noexcept {
  g_table = &table;
  if (table.host_allocate == nullptr || table.host_deallocate == nullptr) {
    table.host_allocate = &pageable_host_allocate;
    table.host_deallocate = &pageable_host_deallocate;
  }
  fill(table.finalize, &no_finalize);
  fill(table.device_state, &no_device_state);
  fill(table.peer_access, &no_peer_access);
  fill(table.kernel_attributes, &no_kernel_attributes);
  fill(table.memory_info, &memory_info_from_properties);
  fill(table.queue_native_handle, &queue_as_native_handle);
  fill(table.copy_peer, &peer_copy_through_host);
  fill(table.copy_host_to_device_2d, &rows_host_to_device);
  fill(table.copy_device_to_host_2d, &rows_device_to_host);
  fill(table.copy_device_to_device_2d, &rows_device_to_device);
  fill(table.host_callback, &callback_after_waiting);
}

}  // namespace outboard
