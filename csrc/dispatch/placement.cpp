#include "dispatch/placement.h"

#include <c10/util/Exception.h>

#include <array>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "dispatch/router.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/programs/launch.h"
#include "runtime/programs/program.h"

namespace outboard {

std::atomic<bool> g_device_kernels_loaded{false};

namespace {

struct DevicePlacement {
  std::atomic<PlacementSetting> setting{PlacementSetting::kAuto};
  // From the setting, the kind of device and its compiler.
  std::atomic<bool> on_device{true};
  std::atomic<bool> has_graphs{false};
};

std::array<DevicePlacement, kMaxDevices> g_devices;
std::atomic<DeviceKernelLoader> g_loader{nullptr};

DevicePlacement& placement_of(c10::DeviceIndex device) {
  return g_devices.at(static_cast<size_t>(device));
}

bool answer_of(c10::DeviceIndex device) {
  const PlacementSetting setting = placement_setting(device);
  if (setting != PlacementSetting::kAuto) return setting == PlacementSetting::kDevice;
  // CPU kernels need no compilation, and small operators no launch.
  if (device_properties(device).kind == OB_DEVICE_CPU && shares_host_memory(device) &&
      !placement_of(device).has_graphs.load()) {
    return false;
  }
  return !(runs_code(device) && compiler_is_known_to_fail(device));
}

void update_answers() {
  static std::mutex* mutex = new std::mutex;
  std::lock_guard<std::mutex> lock(*mutex);
  if (!g_device_kernels_loaded.load()) return;
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    placement_of(device).on_device.store(answer_of(device));
  }
}

// Typed CPU kernels bypass the router unless something watches it. All must call it until device
// kernels are loaded or known to be missing.
void watch_router(bool wanted) {
  static std::atomic<bool> watching{false};
  if (watching.exchange(wanted) != wanted) g_router_watchers += wanted ? 1 : -1;
}

// The line with the error in a compiler's log.
std::string cause_in(const std::string& failure) {
  std::istringstream lines(failure);
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    if (first.empty()) first = line;
    const size_t error = line.find("error: ");
    if (error != std::string::npos) return line.substr(error);
  }
  return first;
}

std::string words_about_compiler(c10::DeviceIndex device, const std::string& failure) {
  return c10::str("the compiler of ", device_of(device), " (", device_properties(device).name,
                  ") fails on a kernel that does nothing (", cause_in(failure), ")");
}

constexpr const char* kRemedy =
    "`python -m torch_outboard doctor` prints its whole log; use another version of it, another "
    "device or another driver";

[[noreturn]] void refuse_device_placement(c10::DeviceIndex device) {
  TORCH_CHECK(false, "device kernels were asked for by the placement 'device', and ",
              words_about_compiler(device, compiler_failure(device).value_or("")), "; ", kRemedy,
              ", or the placement 'host' (OUTBOARD_PLACEMENT=host)");
}

// Names and driver versions of devices.
struct WarnedCompilers : std::set<std::string> {};

// Once for devices that share a compiler.
void warn_of_compiler(c10::DeviceIndex device, const std::string& failure) {
  const ob_device_properties& properties = device_properties(device);
  const std::string compiler = c10::str(properties.name, '\n', properties.driver_version);
  if (!Locked<WarnedCompilers>()->insert(compiler).second) return;
  TORCH_WARN(words_about_compiler(device, failure), ", so all operators run on the host; ", kRemedy,
             ", or set OUTBOARD_PLACEMENT=host to silence this warning");
}

}  // namespace

PlacementSetting placement_setting(c10::DeviceIndex device) {
  return placement_of(device).setting.load(std::memory_order_relaxed);
}

void set_placement_setting(c10::DeviceIndex device, PlacementSetting setting) {
  if (device >= 0) {
    placement_of(device).setting.store(setting);
  } else {
    for (DevicePlacement& each : g_devices) each.setting.store(setting);
  }
  update_answers();
  if (g_device_kernels_loaded.load()) probe_compilers();
}

void note_compiled_graph(c10::DeviceIndex device) {
  if (!placement_of(device).has_graphs.exchange(true)) update_answers();
}

PlacementSetting& PlacementScope::current() noexcept {
  static thread_local PlacementSetting current = PlacementSetting::kAuto;
  return current;
}

bool runs_on_device(c10::DeviceIndex device) {
  const DevicePlacement& placement = placement_of(device);
  const PlacementSetting scope = PlacementScope::current();
  if (scope == PlacementSetting::kHost) return false;
  if (scope == PlacementSetting::kDevice) {
    if (placement.setting.load(std::memory_order_relaxed) == PlacementSetting::kHost) return false;
  } else if (!placement.on_device.load(std::memory_order_relaxed)) {
    return false;
  }
  if (!compiler_is_known_to_fail(device)) return true;
  if (placement.setting.load() == PlacementSetting::kDevice) refuse_device_placement(device);
  return false;
}

void set_device_kernel_loader(DeviceKernelLoader function) noexcept {
  g_loader.store(function);
  watch_router(!g_device_kernels_loaded.load());
}

void device_kernels_are_loaded() noexcept {
  g_device_kernels_loaded.store(true, std::memory_order_release);
  update_answers();
  watch_router(false);
}

void probe_compilers() {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (!runs_code(device) || !answer_of(device)) continue;
    const std::optional<std::string> failure = compiler_failure(device);
    if (failure.has_value() && placement_setting(device) == PlacementSetting::kAuto) {
      warn_of_compiler(device, *failure);
    }
  }
  update_answers();
}

void load_device_kernels_now() {
  bool needed = driver().matrix_product != nullptr || driver().convolution != nullptr;
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) needed |= runs_code(device);
  const DeviceKernelLoader load = g_loader.load();
  if (load == nullptr || !needed) {
    device_kernels_are_loaded();
  } else {
    load();
  }
}

}  // namespace outboard
