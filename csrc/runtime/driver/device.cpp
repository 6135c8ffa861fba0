#include "runtime/driver/device.h"

#include <c10/util/Exception.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
#include "runtime/driver/property_checks.h"

namespace outboard {
namespace {

struct Devices {
  c10::DeviceIndex count = 0;
  std::string why_none;  // the driver's words, if there is no device
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
  TORCH_CHECK(count >= 0, "driver '", table.name, "' reports ", count, " devices");
  if (count == 0) devices->why_none = driver_message(table);
  if (devices->why_none == earlier_message) devices->why_none.clear();
  devices->count = static_cast<c10::DeviceIndex>(std::min<int32_t>(count, kMaxDevices));
  for (int32_t i = 0; i < devices->count; ++i) {
    devices->properties[i] = checked_properties(table, i);
  }
  if (count > kMaxDevices) {
    TORCH_WARN("driver '", table.name, "' reports ", count, " devices, of which the first ",
               kMaxDevices, " are used");
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
  const Devices* known = g_devices.load(std::memory_order_acquire);
  if (C10_UNLIKELY(known == nullptr || device < 0 || device >= known->count)) {
    return device_properties(device).host_access == OB_HOST_ACCESS_COHERENT;
  }
  return known->properties[device].host_access == OB_HOST_ACCESS_COHERENT;
}

bool adopts_host_memory(c10::DeviceIndex device) {
  return shares_host_memory(device) &&
         (device_properties(device).features & OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY) != 0;
}

}  // namespace outboard
