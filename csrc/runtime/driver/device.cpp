#include "runtime/driver/device.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/driver/driver_table.h"
#include "runtime/hooks.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/programs/device_assert.h"
#include "runtime/programs/program.h"
#include "runtime/streams/event.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/wait.h"

namespace outboard {
namespace {

// Limits beyond any device: larger numbers are uninitialized or negative ones.
constexpr uint64_t kMostMemory = uint64_t{1} << 60;
constexpr uint32_t kMostAlignment = uint32_t{1} << 30;
constexpr uint32_t kMostComputeUnits = uint32_t{1} << 24;
constexpr uint32_t kMostVectorWidth = 1024;
constexpr int32_t kMostPriority = 1 << 16;

bool is_power_of_two(uint32_t number) { return number != 0 && (number & (number - 1)) == 0; }

// "" or the problem, as the rest of "driver 'x' says that device 0 ".
std::string problem_of(const ob_driver& table, const ob_device_properties& p) {
  using c10::str;
  if (p.addressing != OB_ADDRESSING_POINTER && p.addressing != OB_ADDRESSING_HANDLE) {
    return str("has addressing ", p.addressing, ", and there are ", OB_ADDRESSING_POINTER,
               " (pointers) and ", OB_ADDRESSING_HANDLE, " (handles)");
  }
  if (p.host_access < OB_HOST_ACCESS_NONE || p.host_access > OB_HOST_ACCESS_COHERENT) {
    return str("has host access ", p.host_access, ", and there are ", OB_HOST_ACCESS_NONE,
               " (none) and ", OB_HOST_ACCESS_COHERENT, " (coherent)");
  }
  if (p.total_memory == 0) return "has 0 bytes of memory";
  if (p.total_memory > kMostMemory) {
    return str("has ", p.total_memory, " bytes of memory, more than any device");
  }
  if (p.max_allocation > p.total_memory) {
    return str("gives up to ", p.max_allocation, " bytes in one allocation and has only ",
               p.total_memory, " in all");
  }
  if (!is_power_of_two(p.alignment) || p.alignment > kMostAlignment) {
    return str("aligns memory to ", p.alignment, " bytes, which is not a power of two",
               p.alignment > kMostAlignment ? " up to 2^30" : "");
  }
  if (p.compute_units > kMostComputeUnits) {
    return str("has ", p.compute_units, " compute units, more than any device");
  }
  if (p.preferred_vector_width > kMostVectorWidth) {
    return str("prefers vectors of ", p.preferred_vector_width, " numbers, more than any device");
  }
  if (p.max_work_group_size > 0 && p.subgroup_size > p.max_work_group_size) {
    return str("has sub-groups of ", p.subgroup_size, " work-items in work-groups of up to ",
               p.max_work_group_size);
  }
  if (table.memory_map != nullptr &&
      (p.mapping_granularity < p.alignment || p.mapping_granularity > kMostAlignment ||
       !is_power_of_two(static_cast<uint32_t>(p.mapping_granularity)))) {
    return str("maps memory in multiples of ", p.mapping_granularity,
               " bytes, and has `memory_map`; that has to be a power of two from ", p.alignment,
               " (its alignment) to 2^30");
  }
  if (p.least_priority < p.greatest_priority) {
    return str("has queues of priorities from ", p.greatest_priority, " (most urgent) to ",
               p.least_priority,
               " (least urgent), and the number of the least urgent must not be the smaller one");
  }
  if (p.least_priority > kMostPriority || p.greatest_priority < -kMostPriority) {
    return str("has queues of priorities from ", p.greatest_priority, " to ", p.least_priority,
               ", more than any device");
  }
  return "";
}

// Terminates the text and makes it valid UTF-8; whether a byte was replaced.
template <size_t kSize>
bool clean(char (&text)[kSize]) {
  text[kSize - 1] = '\0';
  return replace_invalid_utf8(text, std::strlen(text));
}

// The properties of a device, with the driver's zeros replaced by their defaults. Raises for
// impossible ones, and for a driver that writes past the struct.
ob_device_properties checked_properties(const ob_driver& table, int32_t device) {
  constexpr unsigned char kUntouched = 0xA5;
  struct {
    ob_device_properties properties;
    unsigned char after[1024];
  } given;
  std::memset(&given, 0, sizeof(given));
  std::memset(given.after, kUntouched, sizeof(given.after));
  ob_device_properties& p = given.properties;
  p.struct_size = sizeof(p);
  check_status(table.device_properties(table.context, device, &p), "device_properties");
  TORCH_CHECK(std::all_of(std::begin(given.after), std::end(given.after),
                          [&](unsigned char byte) { return byte == kUntouched; }),
              "driver '", table.name, "' wrote past the properties of device ", device,
              ": it was given ", sizeof(p),
              " bytes (struct_size), and must fill no more of the struct than that");
  p.struct_size = sizeof(p);
  if (p.alignment == 0) p.alignment = 64;
  if (p.max_allocation == 0) p.max_allocation = p.total_memory;
  const std::string problem = problem_of(table, p);
  TORCH_CHECK(problem.empty(), "driver '", table.name, "' cannot be used: it says that device ",
              device, " ", problem, "; correct its `device_properties`");
  bool replaced = clean(p.name);
  replaced = clean(p.vendor) || replaced;
  replaced = clean(p.driver_version) || replaced;
  if (replaced) {
    TORCH_WARN("driver '", table.name, "' gives device ", device,
               " a name, vendor or version that is not UTF-8; it appears as '", p.name, "', '",
               p.vendor, "', '", p.driver_version, "'");
  }
  return p;
}

struct Devices {
  c10::DeviceIndex count = 0;
  std::string why_none;  // the driver's message if there is no device
  std::array<ob_device_properties, kMaxDevices> properties = {};
};

std::atomic<const Devices*> g_devices{nullptr};
thread_local c10::DeviceIndex t_current_device = 0;

const Devices& probe_devices() {
  static std::mutex* mutex = new std::mutex;
  const ob_driver& table = driver();
  std::lock_guard<std::mutex> lock(*mutex);
  if (const Devices* devices = g_devices.load(std::memory_order_acquire)) return *devices;
  auto devices = std::make_unique<Devices>();
  int32_t count = 0;
  const std::string earlier_message = driver_message(table);
  check_status(table.device_count(table.context, &count), "device_count");
  TORCH_CHECK(count >= 0, "driver '", table.name, "' reports ", count,
              " devices; correct its `device_count`");
  if (count == 0) devices->why_none = driver_message(table);
  if (devices->why_none == earlier_message) devices->why_none.clear();
  devices->count = static_cast<c10::DeviceIndex>(std::min<int32_t>(count, kMaxDevices));
  for (int32_t i = 0; i < devices->count; ++i) {
    devices->properties[i] = checked_properties(table, i);
  }
  if (count > kMaxDevices) {
    TORCH_WARN("driver '", table.name, "' reports ", count, " devices; the first ", kMaxDevices,
               " are used");
  }
  g_devices.store(devices.get(), std::memory_order_release);
  return *devices.release();
}

const Devices& devices() {
  if (const Devices* known = g_devices.load(std::memory_order_acquire)) return *known;
  return probe_devices();
}

[[noreturn]] void refuse_device(c10::DeviceIndex device) {
  const std::string name = driver().name;
  const std::string& why = devices().why_none;
  TORCH_CHECK(false, "device ", device_of(device), " was asked for, but driver '", name,
              "' found no device", why.empty() ? "" : ": ", why,
              "; `python -m torch_outboard doctor` says more",
              name == "host" ? "" : ", and OUTBOARD_DRIVER=host works without hardware");
}

}  // namespace

c10::DeviceIndex device_count() noexcept {
  if (in_bad_fork()) return 0;
  try {
    return devices().count;
  } catch (const std::exception&) {
    return 0;
  }
}

c10::DeviceIndex device_count_or_throw() {
  check_fork();
  return devices().count;
}

void check_device_index(c10::DeviceIndex device) {
  const c10::DeviceIndex count = device_count_or_throw();
  if (C10_UNLIKELY(count == 0)) refuse_device(device);
  TORCH_CHECK(device >= 0 && device < count, "device index ", static_cast<int>(device),
              " was asked for, but driver '", driver().name, "' has ", static_cast<int>(count),
              count == 1 ? " device, index 0" : " devices; use an index from 0 to ",
              count == 1 ? "" : std::to_string(count - 1));
}

const ob_device_properties& device_properties(c10::DeviceIndex device) {
  const Devices* known = g_devices.load(std::memory_order_acquire);
  if (C10_UNLIKELY(known == nullptr || device < 0 || device >= known->count || in_bad_fork())) {
    check_device_index(device);
    known = &devices();
  }
  return known->properties[device];
}

c10::DeviceIndex current_device() noexcept { return t_current_device; }

void set_device(c10::DeviceIndex device) {
  if (device == t_current_device && device != 0) return;
  // Autograd's threads and guards set device 0 also where there is none.
  if (device != 0 || driver_initialized()) check_device_index(device);
  t_current_device = device;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex device) {
  const c10::DeviceIndex previous = t_current_device;
  if (device >= 0 && device != previous) set_device(device);
  return previous;
}

bool shares_host_memory(c10::DeviceIndex device) {
  // Unlike device_properties, without a look at the process: hot in CPU kernels.
  const Devices* known = g_devices.load(std::memory_order_acquire);
  const bool valid = known != nullptr && device >= 0 && device < known->count;
  const auto& properties =
      C10_LIKELY(valid) ? known->properties[device] : device_properties(device);
  return properties.host_access == OB_HOST_ACCESS_COHERENT;
}

bool adopts_host_memory(c10::DeviceIndex device) {
  return shares_host_memory(device) &&
         (device_properties(device).features & OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY) != 0;
}

void reset_device(c10::DeviceIndex device) {
  check_fork();
  check_device_index(device);
  const ob_driver& table = driver();
  TORCH_CHECK_NOT_IMPLEMENTED(table.device_reset != nullptr, "driver '", table.name,
                              "' cannot reset its devices; restart the process instead");
  const int graphs = live_graphs(device);
  TORCH_CHECK(graphs == 0, device_of(device), " cannot be reset while ", graphs,
              " captured graphs use it; delete them and call again");
  try {
    synchronize_device(device);
  } catch (const c10::Error&) {
    // Errors of the time before a reset are dropped. A lost device refuses to be waited for.
  }
  release_unused_adopted_memory(/*wait=*/true);
  const auto [used, reserved] = caching_allocator()->release_all(device);
  TORCH_CHECK(used == 0 && reserved == 0, device_of(device), " cannot be reset while tensors hold ",
              c10::CachingAllocator::format_size(used == 0 ? reserved : used),
              " of its memory; delete them and call again");
  release_assert_flags(device);
  release_programs(table, device);
  ob_status status = OB_OK;
  {
    const WaitScope scope("device_reset");
    status = table.device_reset(table.context, device);
  }
  check_status(status, "device_reset");
  forget_work(device);
  forget_event_times(device);
  take_deferred_failure();
  renew_assert_flags(device);
}

}  // namespace outboard
