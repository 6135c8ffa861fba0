#include "runtime/driver/driver_answers.h"

#include <c10/util/Exception.h>
#include <fcntl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/memory/careful_memory.h"
#include "runtime/driver/device.h"
#include "runtime/driver/memory_probe.h"
#include "runtime/driver/utf8.h"

namespace outboard {
namespace {

// The driver's own functions, without defaults. There is one driver per process.
ob_driver g_theirs = {};

// ---- Messages ----

// Pointers: the system has little room for variables of threads in libraries that are loaded late.
// Leaked: what a thread does at its end may fail, too.
struct Messages {
  std::array<char, 1024> ours = {};
  std::string theirs;
};
thread_local Messages* t_messages = nullptr;
thread_local bool t_message_is_ours = false;

Messages& messages() {
  if (t_messages == nullptr) t_messages = new Messages;
  return *t_messages;
}

__attribute__((format(printf, 1, 2))) ob_status refuse(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::array<char, 1024>& text = messages().ours;
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  t_message_is_ours = true;
  return OB_ERROR;
}

// Whoever sees a status asks once for its message; the next one is the driver's again.
const char* last_error(void* context) {
  if (t_message_is_ours) {
    t_message_is_ours = false;
    return messages().ours.data();
  }
  const char* text = g_theirs.last_error(context);
  if (text == nullptr || text[0] == '\0') return "it gave no reason";
  if (is_utf8(text)) return text;
  std::string& cleaned = messages().theirs;
  cleaned = text;
  replace_invalid_utf8(cleaned.data(), cleaned.size());
  return cleaned.c_str();
}

// What a function that creates something answers, and the object that came with it.
template <class Handle>
ob_status created(ob_status status, const Handle* handle, const char* function) {
  if (status != OB_OK || *handle != Handle{}) return status;
  return refuse("it answered OK and gave nothing; `%s` has to store what it created", function);
}

// ---- Memory ----

// Leaked: memory is given back while the process exits.
struct Memory {
  std::mutex mutex;
  std::map<ob_address, uint64_t> live;  // bytes by address
};

Memory& memory() {
  static Memory* instance = new Memory;
  return *instance;
}

struct DeviceMemory {
  std::mutex mutex;
  std::atomic<bool> probed{false};  // the rest is constant from then on
  bool coherent = false;
  uint32_t alignment = 1;
  std::string problem;
};

DeviceMemory& device_memory(int32_t device) {
  static auto* all = new std::array<DeviceMemory, kMaxDevices>;
  return (*all)[device];
}

// Tries the memory of a device, once. A status that is not OB_OK is the driver's, with its message.
ob_status probe_once(void* context, int32_t device, DeviceMemory& found) {
  std::lock_guard<std::mutex> lock(found.mutex);
  if (found.probed.load(std::memory_order_relaxed)) return OB_OK;
  ob_device_properties properties = {};
  properties.struct_size = sizeof(properties);
  ob_status status = g_theirs.device_properties(context, device, &properties);
  if (status != OB_OK) return status;
  ProbeResult result = probe_memory(g_theirs, device);
  // Nothing is known where a call failed, for want of memory, say: it is tried again, and what
  // fails for good is raised by the program's own calls.
  if (result.status != OB_OK) return OB_OK;
  found.coherent = properties.host_access == OB_HOST_ACCESS_COHERENT;
  found.alignment = properties.alignment == 0 ? 1 : properties.alignment;
  found.problem = std::move(result.problem);
  found.probed.store(true, std::memory_order_release);
  return OB_OK;
}

bool host_reaches(ob_address address, uint64_t bytes) {
  char byte;
  for (const ob_address place : {address, address + bytes - 1}) {
    const auto* pointer = reinterpret_cast<const void*>(place);
    if (copy_carefully(&byte, pointer, 1) == CarefulCopy::kFault) return false;
  }
  return true;
}

// Remembers an allocation, unless it overlaps another.
bool add_allocation(ob_address address, uint64_t bytes) {
  Memory& all = memory();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto next = all.live.lower_bound(address);
  if (next != all.live.end() && next->first - address < bytes) return false;
  if (next != all.live.begin()) {
    const auto& [start, length] = *std::prev(next);
    if (address - start < length) return false;
  }
  all.live.emplace(address, bytes);
  return true;
}

ob_status checked_allocate(void* context, const ob_allocation* wanted, ob_address* address) {
  t_message_is_ours = false;
  const int32_t device = wanted->device;
  const uint64_t bytes = wanted->bytes;
  if (device < 0 || device >= kMaxDevices) return g_theirs.allocate(context, wanted, address);
  DeviceMemory& known = device_memory(device);
  ob_status status = OB_OK;
  if (!known.probed.load(std::memory_order_acquire)) status = probe_once(context, device, known);
  if (status != OB_OK) return status;
  const bool probed = known.probed.load(std::memory_order_acquire);
  if (probed && !known.problem.empty()) return refuse("it %s", known.problem.c_str());
  *address = 0;
  status = created(g_theirs.allocate(context, wanted, address), address, "allocate");
  if (status != OB_OK) return status;
  const ob_address given = *address;
  const char* problem = nullptr;
  if (probed && given % known.alignment != 0) {
    problem = "it gave memory that is not aligned as `device_properties` says";
  } else if (given + bytes < given) {
    problem = "it gave memory that reaches past the last address";
  } else if (probed && known.coherent && !host_reaches(given, bytes)) {
    problem =
        "it gave memory that the host cannot touch, on a device of which it says that the host can "
        "(OB_HOST_ACCESS_COHERENT)";
  } else if (!add_allocation(given, bytes)) {
    // Not given back: that would take it from its first owner.
    return refuse("it gave memory that is in use already, at 0x%llx",
                  static_cast<unsigned long long>(given));
  }
  if (problem == nullptr) return OB_OK;
  g_theirs.deallocate(context, device, given);
  return refuse("%s (%llu bytes at 0x%llx)", problem, static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(given));
}

ob_status checked_deallocate(void* context, int32_t device, ob_address address) {
  t_message_is_ours = false;
  {
    // Before the driver may give the same addresses to another thread.
    std::lock_guard<std::mutex> lock(memory().mutex);
    memory().live.erase(address);
  }
  return g_theirs.deallocate(context, device, address);
}

ob_status checked_memory_export(void* context, int32_t device, ob_address address,
                                ob_memory_handle* handle) {
  t_message_is_ours = false;
  handle->descriptor = -1;
  const ob_status status = g_theirs.memory_export(context, device, address, handle);
  if (status != OB_OK) return status;
  if (handle->descriptor < 0 || fcntl(handle->descriptor, F_GETFD) == -1) {
    return refuse("it answered OK and gave no open descriptor; it gave %d", handle->descriptor);
  }
  return OB_OK;
}

ob_status checked_memory_import(void* context, int32_t device, const ob_memory_handle* handle,
                                ob_address* address) {
  t_message_is_ours = false;
  *address = 0;
  const ob_status status =
      created(g_theirs.memory_import(context, device, handle, address), address, "memory_import");
  if (status != OB_OK) return status;
  if (add_allocation(*address, handle->bytes)) return OB_OK;
  return refuse("it gave memory that is in use already, at 0x%llx",
                static_cast<unsigned long long>(*address));
}

ob_status checked_memory_close(void* context, int32_t device, ob_address address) {
  t_message_is_ours = false;
  {
    std::lock_guard<std::mutex> lock(memory().mutex);
    memory().live.erase(address);
  }
  return g_theirs.memory_close(context, device, address);
}

ob_status checked_address_reserve(void* context, int32_t device, uint64_t bytes,
                                  ob_address* address) {
  t_message_is_ours = false;
  *address = 0;
  const ob_status status = created(g_theirs.address_reserve(context, device, bytes, address),
                                   address, "address_reserve");
  if (status != OB_OK) return status;
  if (*address + bytes >= *address && add_allocation(*address, bytes)) return OB_OK;
  return refuse("it gave addresses that are in use already or past the last one, at 0x%llx",
                static_cast<unsigned long long>(*address));
}

ob_status checked_address_release(void* context, int32_t device, ob_address address,
                                  uint64_t bytes) {
  t_message_is_ours = false;
  {
    std::lock_guard<std::mutex> lock(memory().mutex);
    memory().live.erase(address);
  }
  return g_theirs.address_release(context, device, address, bytes);
}

ob_status checked_memory_map(void* context, int32_t device, ob_address address, uint64_t bytes) {
  t_message_is_ours = false;
  const ob_status status = g_theirs.memory_map(context, device, address, bytes);
  if (status != OB_OK) return status;
  ob_device_properties properties = {};
  properties.struct_size = sizeof(properties);
  const bool known = g_theirs.device_properties(context, device, &properties) == OB_OK;
  if (!known || properties.host_access != OB_HOST_ACCESS_COHERENT || host_reaches(address, bytes)) {
    return OB_OK;
  }
  g_theirs.memory_unmap(context, device, address, bytes);
  return refuse(
      "it mapped memory that the host cannot touch, on a device of which it says that the host can "
      "(OB_HOST_ACCESS_COHERENT); %llu bytes at 0x%llx",
      static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(address));
}

ob_status checked_memory_info(void* context, int32_t device, uint64_t* free_bytes,
                              uint64_t* total_bytes) {
  t_message_is_ours = false;
  const ob_status status = g_theirs.memory_info(context, device, free_bytes, total_bytes);
  if (status != OB_OK) return status;
  if (*total_bytes != 0 && *free_bytes <= *total_bytes) return OB_OK;
  const auto free = static_cast<unsigned long long>(*free_bytes);
  const auto total = static_cast<unsigned long long>(*total_bytes);
  *free_bytes = *total_bytes = 0;
  return refuse("it says that %llu of %llu bytes are free, which cannot be", free, total);
}

ob_status checked_host_allocate(void* context, const ob_host_allocation* wanted, void** pointer) {
  t_message_is_ours = false;
  *pointer = nullptr;
  const ob_status status =
      created(g_theirs.host_allocate(context, wanted, pointer), pointer, "host_allocate");
  if (status != OB_OK || host_reaches(reinterpret_cast<ob_address>(*pointer), wanted->bytes))
    return status;
  g_theirs.host_deallocate(context, *pointer);
  return refuse("it gave memory that the host cannot touch");
}

// ---- Objects ----

ob_status checked_queue_create(void* context, const ob_queue_description* wanted, ob_queue* queue) {
  t_message_is_ours = false;
  *queue = nullptr;
  return created(g_theirs.queue_create(context, wanted, queue), queue, "queue_create");
}

ob_status checked_event_create(void* context, const ob_event_description* wanted, ob_event* event) {
  t_message_is_ours = false;
  *event = nullptr;
  return created(g_theirs.event_create(context, wanted, event), event, "event_create");
}

ob_status checked_event_elapsed(void* context, ob_event start, ob_event end, double* milliseconds) {
  t_message_is_ours = false;
  const ob_status status = g_theirs.event_elapsed(context, start, end, milliseconds);
  if (status != OB_OK || std::isfinite(*milliseconds)) return status;
  return refuse("it answered OK and a time of %f ms", *milliseconds);
}

// Nanoseconds of CLOCK_MONOTONIC.
uint64_t monotonic_time() noexcept {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

// When the table was taken over: no event of the driver happened before.
uint64_t g_start = 0;

ob_status checked_event_time(void* context, ob_event event, uint64_t* nanoseconds) {
  t_message_is_ours = false;
  // What is not measured but compared may be off by a little.
  constexpr uint64_t kTolerance = 1'000'000'000;
  const ob_status status = g_theirs.event_time(context, event, nanoseconds);
  if (status != OB_OK) return status;
  const uint64_t now = monotonic_time();
  if (*nanoseconds + kTolerance >= g_start && *nanoseconds <= now + kTolerance) return OB_OK;
  return refuse(
      "it answered OK and a time of %llu ns, and it is %llu ns on the host's CLOCK_MONOTONIC",
      static_cast<unsigned long long>(*nanoseconds), static_cast<unsigned long long>(now));
}

ob_status checked_program_build(void* context, const ob_program_source* source,
                                ob_program* program) {
  t_message_is_ours = false;
  *program = nullptr;
  return created(g_theirs.program_build(context, source, program), program, "program_build");
}

ob_status checked_program_load(void* context, const ob_program_image* image, ob_program* program) {
  t_message_is_ours = false;
  *program = nullptr;
  return created(g_theirs.program_load(context, image, program), program, "program_load");
}

ob_status checked_kernel_create(void* context, ob_program program, const char* name,
                                ob_kernel* kernel) {
  t_message_is_ours = false;
  *kernel = nullptr;
  return created(g_theirs.kernel_create(context, program, name, kernel), kernel, "kernel_create");
}

ob_status checked_graph_end(void* context, ob_queue queue, ob_graph* graph) {
  t_message_is_ours = false;
  *graph = nullptr;
  return created(g_theirs.graph_end(context, queue, graph), graph, "graph_end");
}

ob_status checked_communicator_create(void* context, const ob_communicator_description* wanted,
                                      ob_communicator* communicator) {
  t_message_is_ours = false;
  *communicator = nullptr;
  return created(g_theirs.communicator_create(context, wanted, communicator), communicator,
                 "communicator_create");
}

// ---- The table ----

struct Member {
  const char* name;
  bool present;
};

// Of functions that make sense only together.
std::string group_problem(std::initializer_list<Member> group) {
  const Member* present = nullptr;
  const Member* missing = nullptr;
  for (const Member& member : group) {
    const Member*& seen = member.present ? present : missing;
    if (seen == nullptr) seen = &member;
  }
  if (present == nullptr || missing == nullptr) return "";
  return c10::str("has `", present->name, "` and lacks `", missing->name,
                  "`, which go together; bring both or leave both NULL");
}

}  // namespace

std::string table_problem(const ob_driver& table) {
  if (table.name == nullptr || table.name[0] == '\0') return "lacks `name`, which every driver has";
  if (!is_utf8(table.name)) return "has a `name` that is not UTF-8";
#define OUTBOARD_MEMBER(field) \
  Member { #field, table.field != nullptr }
  for (const std::string& problem :
       {group_problem({OUTBOARD_MEMBER(host_allocate), OUTBOARD_MEMBER(host_deallocate)}),
        group_problem({OUTBOARD_MEMBER(program_build), OUTBOARD_MEMBER(program_release),
                       OUTBOARD_MEMBER(kernel_create), OUTBOARD_MEMBER(kernel_release),
                       OUTBOARD_MEMBER(launch)}),
        group_problem({OUTBOARD_MEMBER(program_binary), OUTBOARD_MEMBER(program_load)}),
        group_problem({OUTBOARD_MEMBER(graph_begin), OUTBOARD_MEMBER(graph_end),
                       OUTBOARD_MEMBER(graph_launch), OUTBOARD_MEMBER(graph_release)}),
        group_problem({OUTBOARD_MEMBER(host_register), OUTBOARD_MEMBER(host_unregister)}),
        group_problem({OUTBOARD_MEMBER(memory_export), OUTBOARD_MEMBER(memory_import),
                       OUTBOARD_MEMBER(memory_close)}),
        group_problem({OUTBOARD_MEMBER(address_reserve), OUTBOARD_MEMBER(address_release),
                       OUTBOARD_MEMBER(memory_map), OUTBOARD_MEMBER(memory_unmap)}),
        group_problem({OUTBOARD_MEMBER(communicator_id), OUTBOARD_MEMBER(communicator_create),
                       OUTBOARD_MEMBER(communicator_destroy), OUTBOARD_MEMBER(communicator_abort),
                       OUTBOARD_MEMBER(communicator_error), OUTBOARD_MEMBER(communicate),
                       OUTBOARD_MEMBER(communication_begin),
                       OUTBOARD_MEMBER(communication_end)})}) {
    if (!problem.empty()) return problem;
  }
#undef OUTBOARD_MEMBER
  return "";
}

void check_answers(ob_driver& table) {
  g_theirs = table;
  g_start = monotonic_time();
  table.last_error = &last_error;
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
}

}  // namespace outboard
