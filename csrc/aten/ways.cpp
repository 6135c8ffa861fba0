#include "aten/ways.h"

#include <array>
#include <mutex>

#include "aten/router.h"
#include "runtime/device.h"
#include "runtime/driver_table.h"
#include "runtime/program.h"

namespace outboard {

std::atomic<bool> g_device_kernels_settled{false};

namespace {

std::array<std::atomic<WaySetting>, kMaxDevices> g_settings = {};
std::atomic<BringDeviceKernels> g_bring{nullptr};

// Typed host kernels do not ask the router while nobody watches it. It has to be asked until it is
// known whether device kernels exist, and on as long as one could be chosen where memory is shared.
struct Watch {
  std::mutex mutex;
  bool watching = false;
};

Watch& watch() {
  static Watch* instance = new Watch;
  return *instance;
}

bool prefers_host(c10::DeviceIndex device) {
  return shares_host_memory(device) && device_properties(device).kind == OB_DEVICE_CPU;
}

bool may_take_device_way(c10::DeviceIndex device) {
  if (!shares_host_memory(device) || !runs_code(device)) return false;
  switch (way_setting(device)) {
    case WaySetting::kDevice:
      return true;
    case WaySetting::kHost:
      return false;
    case WaySetting::kAuto:
      break;
  }
  return !prefers_host(device);
}

void update_watch() {
  Watch& state = watch();
  std::lock_guard<std::mutex> lock(state.mutex);
  bool wanted = !g_device_kernels_settled.load();
  if (!wanted) {
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      wanted = wanted || may_take_device_way(device);
    }
  }
  if (wanted == state.watching) return;
  g_router_watchers += wanted ? 1 : -1;
  state.watching = wanted;
}

bool any_device_runs_code() {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (runs_code(device)) return true;
  }
  return false;
}

}  // namespace

WaySetting way_setting(c10::DeviceIndex device) {
  return g_settings.at(static_cast<size_t>(device)).load(std::memory_order_relaxed);
}

void set_way_setting(c10::DeviceIndex device, WaySetting setting) {
  if (device >= 0) {
    g_settings.at(static_cast<size_t>(device)).store(setting);
  } else {
    for (auto& each : g_settings) each.store(setting);
  }
  update_watch();
}

bool takes_device_way(c10::DeviceIndex device, const char* family, int64_t elements) {
  switch (way_setting(device)) {
    case WaySetting::kDevice:
      return true;
    case WaySetting::kHost:
      return false;
    case WaySetting::kAuto:
      break;
  }
  return !prefers_host(device);
}

void set_bring_device_kernels(BringDeviceKernels function) noexcept {
  g_bring.store(function);
  update_watch();
}

void device_kernels_are_there() noexcept {
  g_device_kernels_settled.store(true, std::memory_order_release);
  update_watch();
}

void settle_device_kernels() {
  const BringDeviceKernels bring = g_bring.load();
  if (bring == nullptr || !any_device_runs_code()) {
    device_kernels_are_there();
    return;
  }
  bring();
}

}  // namespace outboard
