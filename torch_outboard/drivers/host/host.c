/*
 * The host driver: devices made of the host's memory and threads.
 *
 * It is the example for drivers of real hardware, which have the same parts; host.h lists them.
 * This file holds settings, devices and the table. Kernels need a clang. Without one, operators run
 * on the host. torch_outboard/setting_table.py describes the settings, which `initialize` reads.
 *
 * Shared: device addresses are host pointers, and all memory of the host is device memory.
 * Separate, like a card with its own memory: the host cannot access device addresses; an access
 * without a copy faults at once.
 */
#define _GNU_SOURCE
#include "host.h"

#include <common/settings.h>
#include <common/system.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

settings host_settings;

/* ---- Devices ---- */

static ob_status initialize(void* context) {
  static const char* const accesses[] = {"shared", "separate", NULL};
  int access = 0;
  uint64_t count = 2, threads = (uint64_t)usable_processors();
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  ob_status status = read_choice("OUTBOARD_HOST_ACCESS", accesses, &access);
  if (status == OB_OK) status = read_number("OUTBOARD_HOST_DEVICES", 0, MAX_DEVICES, &count);
  uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t memory = count == 0 ? 0 : physical / 2 / count;
  if (status == OB_OK) {
    status = read_number("OUTBOARD_HOST_MEMORY", 1, UINT64_C(1) << 46, &memory);
  }
  if (status == OB_OK) status = read_number("OUTBOARD_HOST_THREADS", 1, MAX_THREADS, &threads);
  if (status != OB_OK) return status;
  host_settings.shared = access == 0;
  host_settings.memory = whole_pages(memory);
  host_settings.threads = (int)threads;
  may_spin = threads > 1; /* on one processor a busy wait keeps the other thread from running */
  find_code();

  const memory_settings in_memory = {host_settings.memory, host_settings.shared,
                                     "OUTBOARD_HOST_MEMORY"};
  for (int32_t i = 0; i < (int32_t)count; i++) {
    device_memory created;
    status = create_memory(&in_memory, &created);
    if (status != OB_OK) return status;
  }
  host_settings.devices = (int32_t)count;
  start_queues("host", host_settings.devices);
  return OB_OK;
}

static ob_status finalize(void* context) {
  stop_queues();
  stop_pool();
  return OB_OK;
}

/* Memory and threads of the host cannot be lost: a wait for pending work is enough. */
static ob_status device_reset(void* context, int32_t index) {
  return device_synchronize(context, index);
}

static ob_status device_count(void* context, int32_t* count) {
  *count = host_settings.devices;
  return OB_OK;
}

static ob_status device_properties(void* context, int32_t index, ob_device_properties* properties) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  ob_device_properties ours = {
      .struct_size = properties->struct_size,
      .vendor = "torch_outboard",
      .driver_version = "1",
      .kind = OB_DEVICE_CPU,
      .addressing = OB_ADDRESSING_POINTER,
      .host_access = host_settings.shared ? OB_HOST_ACCESS_COHERENT : OB_HOST_ACCESS_NONE,
      .dtypes = OB_DTYPE_BOOL | OB_DTYPE_UINT8 | OB_DTYPE_INT8 | OB_DTYPE_INT16 | OB_DTYPE_INT32 |
                OB_DTYPE_INT64 | OB_DTYPE_FLOAT16 | OB_DTYPE_BFLOAT16 | OB_DTYPE_FLOAT32 |
                OB_DTYPE_FLOAT64 | OB_DTYPE_COMPLEX64 | OB_DTYPE_COMPLEX128 | OB_DTYPE_UINT16 |
                OB_DTYPE_UINT32 | OB_DTYPE_UINT64,
      .features = host_settings.shared ? OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY : 0,
      .total_memory = host_settings.memory,
      .max_allocation = host_settings.memory,
      .alignment = 64, /* for kernels; allocations start at pages, which is more */
      .compute_units = (uint32_t)host_settings.threads,
      .least_priority = LEAST_PRIORITY,
      .greatest_priority = GREATEST_PRIORITY,
  };
  /* The same name for all devices, because it is in the key of programs on disk. */
  snprintf(ours.name, sizeof ours.name, "Host device (%s memory)",
           host_settings.shared ? "shared" : "separate");
  describe_code(&ours);
  /* The caller may have been compiled with an older, shorter struct. */
  size_t size = properties->struct_size < sizeof ours ? properties->struct_size : sizeof ours;
  memcpy(properties, &ours, size);
  return OB_OK;
}

/* ---- State of the machine, from files of Linux where they exist ---- */

/* Ticks of all processors since the machine started. */
typedef struct processor_time {
  unsigned long long busy, total;
} processor_time;

static bool read_processor_time(processor_time* time) {
  FILE* file = fopen("/proc/stat", "r");
  if (file == NULL) return false;
  unsigned long long user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen;
  int count = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system,
                     &idle, &waiting, &interrupts, &soft_interrupts, &stolen);
  fclose(file);
  if (count != 8) return false;
  time->busy = user + nice + system + interrupts + soft_interrupts + stolen;
  time->total = time->busy + idle + waiting;
  return true;
}

/* Percent since the previous call; at the first call, since the machine started. */
static bool read_utilization(double* percent) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static processor_time before;
  static double latest;
  processor_time now;
  if (!read_processor_time(&now)) return false;
  pthread_mutex_lock(&lock);
  if (now.total > before.total && now.busy >= before.busy) {
    latest = 100.0 * (double)(now.busy - before.busy) / (double)(now.total - before.total);
    before = now;
  }
  *percent = latest < 100 ? latest : 100;
  pthread_mutex_unlock(&lock);
  return true;
}

static bool read_temperature(double* celsius) {
  FILE* file = fopen("/sys/class/thermal/thermal_zone0/temp", "r");
  if (file == NULL) return false;
  long thousandths;
  int count = fscanf(file, "%ld", &thousandths);
  fclose(file);
  if (count == 1) *celsius = 1e-3 * (double)thousandths;
  return count == 1;
}

ob_status device_state(void* context, int32_t index, ob_device_state* state) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  /* Both fields exist since the first version of the struct. */
  if (read_utilization(&state->utilization)) state->known |= OB_STATE_UTILIZATION;
  if (read_temperature(&state->temperature)) state->known |= OB_STATE_TEMPERATURE;
  return OB_OK;
}

/* ---- The table ---- */

__attribute__((visibility("default"))) const ob_driver* ob_driver_table(void) {
  static ob_driver table = {
      .major = OB_VERSION_MAJOR,
      .minor = OB_VERSION_MINOR,
      .struct_size = sizeof(ob_driver),
      .name = "host",
      .last_error = last_error,
      .initialize = initialize,
      .finalize = finalize,
      .device_count = device_count,
      .device_properties = device_properties,
      .device_state = device_state,
      .device_synchronize = device_synchronize,
      .program_build = program_build,
      .program_binary = program_binary,
      .program_load = program_load,
      .program_release = program_release,
      .kernel_create = kernel_create,
      .kernel_release = kernel_release,
      .launch = launch,
      .device_reset = device_reset,
      .communicator_id = communicator_id,
      .communicator_create = communicator_create,
      .communicator_destroy = communicator_destroy,
      .communicator_abort = communicator_abort,
      .communicator_error = communicator_error,
      .communicate = communicate,
      .communication_begin = communication_begin,
      .communication_end = communication_end,
  };
  set_memory_functions(&table); /* the same in each call */
  set_queue_functions(&table);
  return &table;
}
