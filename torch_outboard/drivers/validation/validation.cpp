// Validation: a table around any driver's table that compares its answers with driver.h.
//
// A wrong answer becomes OB_ERROR with a message that names it:
//
// * OK without the object that was to be created, or without an open descriptor;
// * memory that overlaps other memory, is not aligned, or that the host cannot touch where
//   `host_access` or pinned memory promise it;
// * times, sizes of free memory and events on another clock that cannot be;
// * before the first allocation on a device: copies that move nothing, and memory that contradicts
//   `host_access` and `features` (memory_probe.cpp).
//
// Functions that the wrapped driver lacks stay NULL.
#include <common/system.h>
#include <fcntl.h>
#include <outboard/driver.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "validation/memory_probe.h"

namespace outboard {
namespace {

constexpr int32_t kMaxDevices = 64;

// The wrapped driver. There is one per process.
ob_driver g_driver = {};
// When it was wrapped, in nanoseconds of CLOCK_MONOTONIC: its events happen later.
uint64_t g_start = 0;

// ---- Messages ----

thread_local std::array<char, 512> t_message = {};
thread_local bool t_message_is_ours = false;

__attribute__((format(printf, 1, 2))) ob_status refuse(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(t_message.data(), t_message.size(), format, arguments);
  va_end(arguments);
  t_message_is_ours = true;
  return OB_ERROR;
}

// A failed call is followed by one call of this, the next message is the driver's again.
const char* last_error(void* context) {
  if (!t_message_is_ours) return g_driver.last_error(context);
  t_message_is_ours = false;
  return t_message.data();
}

unsigned long long printable(uint64_t number) { return number; }

// The status of a function that creates an object; `handle` is the stored result.
template <class Handle>
ob_status created(ob_status status, const Handle* handle, const char* function) {
  if (status != OB_OK || *handle != Handle{}) return status;
  return refuse("it answered OK and gave nothing; `%s` has to store what it created", function);
}

// ---- Memory ----

// Leaked: memory is freed while the process exits.
struct Memory {
  std::mutex mutex;
  std::map<ob_address, uint64_t> live;  // bytes by address
};

Memory& memory() {
  static Memory* instance = new Memory;
  return *instance;
}

// Records memory unless it overlaps other memory.
ob_status add_memory(ob_address address, uint64_t bytes) {
  Memory& all = memory();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto next = all.live.lower_bound(address);
  bool free = next == all.live.end() || next->first - address >= bytes;
  if (next != all.live.begin()) {
    const auto& [start, length] = *std::prev(next);
    free = free && address - start >= length;
  }
  // Not freed: that would take it from its first owner.
  if (!free) return refuse("it gave memory that is in use already, at 0x%llx", printable(address));
  all.live.emplace(address, bytes);
  return OB_OK;
}

void forget_memory(ob_address address) {
  std::lock_guard<std::mutex> lock(memory().mutex);
  memory().live.erase(address);
}

struct Device {
  std::mutex mutex;
  std::atomic<bool> probed{false};  // the rest is constant from then on
  bool coherent = false;
  uint32_t alignment = 1;
  std::string problem;
};

// Probes the memory of a device once. A failed call, for lack of memory for example, leaves it
// unknown: the next allocation tries again.
const Device& probed_device(int32_t index) {
  static auto* all = new std::array<Device, kMaxDevices>;
  Device& device = (*all)[index];
  if (device.probed.load(std::memory_order_acquire)) return device;
  std::lock_guard<std::mutex> lock(device.mutex);
  if (device.probed.load(std::memory_order_relaxed)) return device;
  ob_device_properties properties = {};
  properties.struct_size = sizeof(properties);
  if (g_driver.device_properties(g_driver.context, index, &properties) != OB_OK) return device;
  ProbeResult result = probe_memory(g_driver, index, properties);
  if (result.status != OB_OK) return device;
  device.coherent = properties.host_access == OB_HOST_ACCESS_COHERENT;
  device.alignment = std::max(properties.alignment, 1u);
  device.problem = std::move(result.problem);
  device.probed.store(true, std::memory_order_release);
  return device;
}

bool host_reaches(ob_address address, uint64_t bytes) {
  char byte;
  for (const ob_address end : {address, address + bytes - 1}) {
    const auto* pointer = reinterpret_cast<const void*>(end);
    if (copy_carefully(&byte, pointer, 1) == CarefulCopy::kFault) return false;
  }
  return true;
}

ob_status checked_allocate(void* context, const ob_allocation* wanted, ob_address* address) {
  t_message_is_ours = false;
  const int32_t index = wanted->device;
  const uint64_t bytes = wanted->bytes;
  if (index < 0 || index >= kMaxDevices) return g_driver.allocate(context, wanted, address);
  const Device& device = probed_device(index);
  const bool probed = device.probed.load(std::memory_order_acquire);
  if (probed && !device.problem.empty()) return refuse("it %s", device.problem.c_str());
  *address = 0;
  const ob_status status =
      created(g_driver.allocate(context, wanted, address), address, "allocate");
  if (status != OB_OK) return status;
  const ob_address given = *address;
  const char* problem = nullptr;
  if (probed && given % device.alignment != 0) {
    problem = "it gave memory that is not aligned as `device_properties` says";
  } else if (given + bytes < given) {
    problem = "it gave memory that reaches past the last address";
  } else if (probed && device.coherent && !host_reaches(given, bytes)) {
    problem =
        "it gave memory that the host cannot touch, but the device reports OB_HOST_ACCESS_COHERENT";
  }
  if (problem == nullptr) return add_memory(given, bytes);
  g_driver.deallocate(context, index, given);
  return refuse("%s (%llu bytes at 0x%llx)", problem, printable(bytes), printable(given));
}

ob_status checked_memory_import(void* context, int32_t device, const ob_memory_handle* handle,
                                ob_address* address) {
  t_message_is_ours = false;
  *address = 0;
  const ob_status status =
      created(g_driver.memory_import(context, device, handle, address), address, "memory_import");
  return status != OB_OK ? status : add_memory(*address, handle->bytes);
}

ob_status checked_address_reserve(void* context, int32_t device, uint64_t bytes,
                                  ob_address* address) {
  t_message_is_ours = false;
  *address = 0;
  const ob_status status = created(g_driver.address_reserve(context, device, bytes, address),
                                   address, "address_reserve");
  if (status != OB_OK) return status;
  if (*address + bytes >= *address) return add_memory(*address, bytes);
  return refuse("it gave addresses that reach past the last one, at 0x%llx", printable(*address));
}

// Forgotten first: the driver may give the same addresses to another thread at once.
#define OUTBOARD_RELEASE(name, parameters, arguments) \
  ob_status checked_##name parameters {               \
    t_message_is_ours = false;                        \
    forget_memory(address);                           \
    return g_driver.name arguments;                   \
  }

OUTBOARD_RELEASE(deallocate, (void* context, int32_t device, ob_address address),
                 (context, device, address))
OUTBOARD_RELEASE(memory_close, (void* context, int32_t device, ob_address address),
                 (context, device, address))
OUTBOARD_RELEASE(address_release,
                 (void* context, int32_t device, ob_address address, uint64_t bytes),
                 (context, device, address, bytes))

ob_status checked_memory_export(void* context, int32_t device, ob_address address,
                                ob_memory_handle* handle) {
  t_message_is_ours = false;
  handle->descriptor = -1;
  const ob_status status = g_driver.memory_export(context, device, address, handle);
  if (status != OB_OK || fcntl(handle->descriptor, F_GETFD) != -1) return status;
  return refuse("it answered OK and gave no open descriptor; it gave %d", handle->descriptor);
}

ob_status checked_memory_map(void* context, int32_t device, ob_address address, uint64_t bytes) {
  t_message_is_ours = false;
  const ob_status status = g_driver.memory_map(context, device, address, bytes);
  if (status != OB_OK) return status;
  ob_device_properties properties = {};
  properties.struct_size = sizeof(properties);
  const bool known = g_driver.device_properties(context, device, &properties) == OB_OK;
  if (!known || properties.host_access != OB_HOST_ACCESS_COHERENT || host_reaches(address, bytes)) {
    return OB_OK;
  }
  g_driver.memory_unmap(context, device, address, bytes);
  return refuse(
      "it mapped memory that the host cannot touch, but the device reports "
      "OB_HOST_ACCESS_COHERENT; "
      "%llu bytes at 0x%llx",
      printable(bytes), printable(address));
}

ob_status checked_memory_info(void* context, int32_t device, uint64_t* free_bytes,
                              uint64_t* total_bytes) {
  t_message_is_ours = false;
  const ob_status status = g_driver.memory_info(context, device, free_bytes, total_bytes);
  if (status != OB_OK) return status;
  if (*total_bytes != 0 && *free_bytes <= *total_bytes) return OB_OK;
  return refuse("it says that %llu of %llu bytes are free, which cannot be",
                printable(std::exchange(*free_bytes, 0)),
                printable(std::exchange(*total_bytes, 0)));
}

ob_status checked_host_allocate(void* context, const ob_host_allocation* wanted, void** pointer) {
  t_message_is_ours = false;
  *pointer = nullptr;
  const ob_status status =
      created(g_driver.host_allocate(context, wanted, pointer), pointer, "host_allocate");
  if (status != OB_OK || host_reaches(reinterpret_cast<ob_address>(*pointer), wanted->bytes)) {
    return status;
  }
  g_driver.host_deallocate(context, *pointer);
  return refuse("it gave memory that the host cannot touch");
}

// ---- Objects and times ----

#define OUTBOARD_CREATE(name, parameters, arguments, result) \
  ob_status checked_##name parameters {                      \
    t_message_is_ours = false;                               \
    *result = nullptr;                                       \
    return created(g_driver.name arguments, result, #name);  \
  }

OUTBOARD_CREATE(queue_create, (void* context, const ob_queue_description* wanted, ob_queue* queue),
                (context, wanted, queue), queue)
OUTBOARD_CREATE(event_create, (void* context, const ob_event_description* wanted, ob_event* event),
                (context, wanted, event), event)
OUTBOARD_CREATE(program_build,
                (void* context, const ob_program_source* source, ob_program* program),
                (context, source, program), program)
OUTBOARD_CREATE(program_load, (void* context, const ob_program_image* image, ob_program* program),
                (context, image, program), program)
OUTBOARD_CREATE(kernel_create,
                (void* context, ob_program program, const char* name, ob_kernel* kernel),
                (context, program, name, kernel), kernel)
OUTBOARD_CREATE(graph_end, (void* context, ob_queue queue, ob_graph* graph),
                (context, queue, graph), graph)
OUTBOARD_CREATE(communicator_create,
                (void* context, const ob_communicator_description* wanted,
                 ob_communicator* communicator),
                (context, wanted, communicator), communicator)

ob_status checked_event_elapsed(void* context, ob_event start, ob_event end, double* milliseconds) {
  t_message_is_ours = false;
  const ob_status status = g_driver.event_elapsed(context, start, end, milliseconds);
  if (status != OB_OK || std::isfinite(*milliseconds)) return status;
  return refuse("it answered OK and a time of %f ms", *milliseconds);
}

ob_status checked_event_time(void* context, ob_event event, uint64_t* time) {
  t_message_is_ours = false;
  // A clock of the device that is compared with the host's may be off by a little.
  constexpr uint64_t kTolerance = 1'000'000'000;
  const ob_status status = g_driver.event_time(context, event, time);
  if (status != OB_OK) return status;
  const uint64_t now = nanoseconds();
  if (*time + kTolerance >= g_start && *time <= now + kTolerance) return OB_OK;
  return refuse(
      "it answered OK and a time of %llu ns, and it is %llu ns on the host's CLOCK_MONOTONIC",
      printable(*time), printable(now));
}

// ---- The table ----

bool readable(const void* table, size_t bytes) {
  std::array<char, kCarefulBytes> copy;
  return bytes <= copy.size() && copy_carefully(copy.data(), table, bytes) != CarefulCopy::kFault;
}

const ob_driver* wrap(const ob_driver* driver, const char** problem) {
  constexpr size_t kHeaderBytes = offsetof(ob_driver, struct_size) + sizeof(driver->struct_size);
  *problem = "the driver's table does not lie in memory that can be read";
  if (!readable(driver, kHeaderBytes)) return nullptr;
  const size_t bytes = std::min(driver->struct_size, sizeof(g_driver));
  if (!readable(driver, bytes)) return nullptr;
  // The kit refuses these by their header.
  if (driver->major != OB_VERSION_MAJOR || bytes < kHeaderBytes || bytes % sizeof(void*) != 0) {
    return driver;
  }
  g_driver = {};
  std::memcpy(&g_driver, driver, bytes);
  g_start = nanoseconds();
  static ob_driver table;
  table = g_driver;
  table.struct_size = sizeof(table);
  if (table.last_error != nullptr) table.last_error = &last_error;
#define OUTBOARD_CHECKED(field) \
  if (table.field != nullptr) table.field = &checked_##field;
  OUTBOARD_CHECKED(allocate)
  OUTBOARD_CHECKED(deallocate)
  OUTBOARD_CHECKED(memory_info)
  OUTBOARD_CHECKED(host_allocate)
  OUTBOARD_CHECKED(queue_create)
  OUTBOARD_CHECKED(event_create)
  OUTBOARD_CHECKED(event_elapsed)
  OUTBOARD_CHECKED(program_build)
  OUTBOARD_CHECKED(program_load)
  OUTBOARD_CHECKED(kernel_create)
  OUTBOARD_CHECKED(graph_end)
  OUTBOARD_CHECKED(event_time)
  OUTBOARD_CHECKED(memory_export)
  OUTBOARD_CHECKED(memory_import)
  OUTBOARD_CHECKED(memory_close)
  OUTBOARD_CHECKED(address_reserve)
  OUTBOARD_CHECKED(address_release)
  OUTBOARD_CHECKED(memory_map)
  OUTBOARD_CHECKED(communicator_create)
#undef OUTBOARD_CHECKED
  return &table;
}

}  // namespace
}  // namespace outboard

extern "C" __attribute__((visibility("default"))) const ob_driver* ob_wrap_driver(
    const ob_driver* driver, const char** problem) {
  return outboard::wrap(driver, problem);
}
