// Functions of the driver that take what is wanted in a struct, with the struct filled in.
#pragma once

#include <outboard/driver.h>

#include "runtime/recording/recorded_call.h"

namespace outboard {

// `flags` are OB_ALLOCATION_*.
inline ob_status allocate_memory(const ob_driver& table, int32_t device, uint64_t bytes,
                                 ob_address* address, uint32_t flags = 0) {
  const ob_allocation wanted = {
      .struct_size = sizeof(wanted), .device = device, .bytes = bytes, .flags = flags};
  const RecordedHostCall record("allocate");
  return table.allocate(table.context, &wanted, address);
}

inline ob_status allocate_host_memory(const ob_driver& table, uint64_t bytes, void** pointer) {
  const ob_host_allocation wanted = {.struct_size = sizeof(wanted), .bytes = bytes};
  return table.host_allocate(table.context, &wanted, pointer);
}

inline ob_status create_queue(const ob_driver& table, int32_t device, int32_t priority,
                              ob_queue* queue) {
  const ob_queue_description wanted = {
      .struct_size = sizeof(wanted), .device = device, .priority = priority};
  return table.queue_create(table.context, &wanted, queue);
}

inline ob_status create_event(const ob_driver& table, int32_t device, uint32_t flags,
                              ob_event* event) {
  const ob_event_description wanted = {
      .struct_size = sizeof(wanted), .device = device, .flags = flags};
  return table.event_create(table.context, &wanted, event);
}

}  // namespace outboard
