/*
 * Device memory in memory of the host, for drivers with drivers/queues whose kernels run on the
 * host or in an emulator. It defines the functions that drivers/queues needs, locate and
 * check_host_range.
 */
#ifndef OUTBOARD_DRIVERS_MEMORY_H
#define OUTBOARD_DRIVERS_MEMORY_H

#include <outboard/driver.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_DEVICES = 64 };

/* The same for all devices. */
typedef struct memory_settings {
  uint64_t bytes;   /* of each device, in whole pages */
  bool shared;      /* device addresses are host pointers, and all memory of the host is device
                     * memory; else the host cannot access device addresses */
  const char* name; /* of the setting of `bytes`, for messages */
} memory_settings;

typedef struct device_memory {
  ob_address base;
  char* contents; /* the same bytes for the driver */
} device_memory;

/* Reserves the addresses of the next device, from device 0 on. They stay reserved until the process
 * ends: other threads may still access tensors. */
ob_status create_memory(const memory_settings* wanted, device_memory* memory);

/* Sets the functions of device memory, pinned memory, and memory of other processes. */
void set_memory_functions(ob_driver* table);

#ifdef __cplusplus
}
#endif

#endif /* OUTBOARD_DRIVERS_MEMORY_H */
