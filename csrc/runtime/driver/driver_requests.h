// Functions of the driver that take what is wanted in a struct, with the struct filled in.
#pragma once

#include <outboard/driver.h>

namespace outboard {

inline ob_status allocate_memory(const ob_driver& table, int32_t device, uint64_t bytes,
                                 ob_address* address) {
  ob_allocation wanted = {};
  wanted.struct_size = sizeof(wanted);
  wanted.device = device;
  wanted.bytes = bytes;
  return table.allocate(table.context, &wanted, address);
}

inline ob_status allocate_host_memory(const ob_driver& table, uint64_t bytes, void** pointer) {
  ob_host_allocation wanted = {};
  wanted.struct_size = sizeof(wanted);
  wanted.bytes = bytes;
  return table.host_allocate(table.context, &wanted, pointer);
}

inline ob_status create_queue(const ob_driver& table, int32_t device, int32_t priority,
                              ob_queue* queue) {
  ob_queue_description wanted = {};
  wanted.struct_size = sizeof(wanted);
  wanted.device = device;
  wanted.priority = priority;
  return table.queue_create(table.context, &wanted, queue);
}

inline ob_status create_event(const ob_driver& table, int32_t device, uint32_t flags,
                              ob_event* event) {
  ob_event_description wanted = {};
  wanted.struct_size = sizeof(wanted);
  wanted.device = device;
  wanted.flags = flags;
  return table.event_create(table.context, &wanted, event);
}

}  // namespace outboard
