#include "dispatch/ways.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <list>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "dispatch/router.h"
#include "runtime/programs/compiler_probe.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/programs/program.h"

namespace outboard {

std::atomic<bool> g_device_kernels_settled{false};

static bool operator==(const ElementRange& a, const ElementRange& b) {
  return a.from == b.from && a.to == b.to;
}

namespace {

std::array<std::atomic<WaySetting>, kMaxDevices> g_settings = {};
std::atomic<BringDeviceKernels> g_bring{nullptr};

// Replaced as a whole; old ones may still be read, and are kept (`keep`).
std::array<std::atomic<const WayRanges*>, kMaxDevices> g_ranges = {};

// Which device kernels may run on memory that the host shares.
struct OpenWays {
  bool all = false;
  // Of each device that measured: whether what its ranges name is open for any number of elements.
  std::vector<std::map<std::string, bool, std::less<>>> measured;
  bool operator==(const OpenWays&) const = default;
};
std::atomic<const OpenWays*> g_open_ways{nullptr};

// What a table says of an operator, else of its family; null if it names neither.
template <typename Table>
const typename Table::mapped_type* find_subject(const Table& table, const WaySubject& subject) {
  auto found = table.find(subject.op);
  if (found == table.end()) found = table.find(subject.family);
  return found != table.end() ? &found->second : nullptr;
}

// Typed host kernels do not ask the router while nobody watches it. All of them have to until it is
// known whether device kernels exist; afterwards those for which one could be chosen where memory
// is shared, and their entries say so.
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

bool device_is_better(c10::DeviceIndex device, const WaySubject& subject, int64_t elements) {
  const WayRanges* measured = g_ranges[static_cast<size_t>(device)].load(std::memory_order_acquire);
  if (measured != nullptr) {
    if (const std::vector<ElementRange>* ranges = find_subject(*measured, subject)) {
      return std::any_of(ranges->begin(), ranges->end(), [&](const ElementRange& r) {
        return elements >= r.from && elements < r.to;
      });
    }
  }
  return !prefers_host(device);
}

void add_open_ways(c10::DeviceIndex device, OpenWays& open) {
  if (!shares_host_memory(device) || !runs_code(device)) return;
  const WaySetting setting = way_setting(device);
  if (setting == WaySetting::kHost) return;
  if (setting == WaySetting::kAuto && compiler_is_known_to_fail(device)) return;
  if (setting == WaySetting::kDevice || !prefers_host(device)) {
    open.all = true;
    return;
  }
  const WayRanges* measured = g_ranges[static_cast<size_t>(device)].load();
  if (measured == nullptr) return;
  auto& named = open.measured.emplace_back();
  for (const auto& [name, ranges] : *measured) named.emplace(name, !ranges.empty());
}

// Ways are switched back and forth, so what was there before is found again. Under the lock.
template <typename Value>
const Value* keep(Value value) {
  static auto* kept = new std::list<Value>;
  const auto found = std::find(kept->begin(), kept->end(), value);
  return found != kept->end() ? &*found : &kept->emplace_back(std::move(value));
}

void update_watch() {
  Watch& state = watch();
  std::lock_guard<std::mutex> lock(state.mutex);
  const bool settled = g_device_kernels_settled.load();
  if (settled) {
    OpenWays open;
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      add_open_ways(device, open);
    }
    g_open_ways.store(keep(std::move(open)), std::memory_order_release);
    mark_operators_with_open_way();
  }
  const bool wanted = !settled;
  if (wanted == state.watching) return;
  g_router_watchers += wanted ? 1 : -1;
  state.watching = wanted;
}

// The line of a compiler's log that says what is wrong.
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
    "`python -m torch_outboard doctor` shows all that it says; use another version of it, another "
    "device or another driver";

[[noreturn]] void refuse_device_way(c10::DeviceIndex device) {
  TORCH_CHECK(false, "device kernels were asked for by the way 'device', and ",
              words_about_compiler(device, compiler_failure(device).value_or("")), "; ", kRemedy,
              ", or the way 'host' (OUTBOARD_WAY=host)");
}

// Once for devices that share a compiler.
void warn_of_compiler(c10::DeviceIndex device, const std::string& failure) {
  static std::mutex* mutex = new std::mutex;
  static auto* said = new std::set<std::string>;
  {
    const ob_device_properties& properties = device_properties(device);
    std::lock_guard<std::mutex> lock(*mutex);
    if (!said->insert(c10::str(properties.name, '\n', properties.driver_version)).second) return;
  }
  TORCH_WARN(words_about_compiler(device, failure), ", so all operators run on the host; ", kRemedy,
             ", or set OUTBOARD_WAY=host to keep this quiet");
}

bool driver_has_library_calls() {
  const ob_driver& table = driver();
  return table.matrix_product != nullptr || table.convolution != nullptr;
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
  if (g_device_kernels_settled.load()) probe_compilers();
  update_watch();
}

void set_way_ranges(c10::DeviceIndex device, WayRanges ranges) {
  {
    std::lock_guard<std::mutex> lock(watch().mutex);
    g_ranges.at(static_cast<size_t>(device)).store(keep(std::move(ranges)));
  }
  update_watch();
}

WayRanges way_ranges(c10::DeviceIndex device) {
  const WayRanges* measured = g_ranges.at(static_cast<size_t>(device)).load();
  return measured != nullptr ? *measured : WayRanges();
}

InnerWay& InnerWayScope::current() noexcept {
  static thread_local InnerWay current = InnerWay::kOpen;
  return current;
}

std::string operator_of(std::string_view overload) {
  std::string_view name = overload.substr(0, overload.find('.'));
  const bool in_place = name.ends_with('_') && !name.ends_with("__");
  if (in_place) name.remove_suffix(1);
  return std::string(name);
}

bool takes_device_way(c10::DeviceIndex device, const WaySubject& subject, int64_t elements) {
  const InnerWay inner = InnerWayScope::current();
  if (inner == InnerWay::kHost) return false;
  switch (way_setting(device)) {
    case WaySetting::kDevice:
      if (compiler_is_known_to_fail(device)) refuse_device_way(device);
      return true;
    case WaySetting::kHost:
      return false;
    case WaySetting::kAuto:
      break;
  }
  if (inner != InnerWay::kDevice && !device_is_better(device, subject, elements)) return false;
  return !compiler_is_known_to_fail(device);
}

bool device_way_is_open(const WaySubject& subject) noexcept {
  const OpenWays* open = g_open_ways.load(std::memory_order_acquire);
  if (open == nullptr) return false;
  return open->all || std::any_of(open->measured.begin(), open->measured.end(), [&](auto& named) {
           const bool* is_open = find_subject(named, subject);
           return is_open != nullptr && *is_open;
         });
}

void set_bring_device_kernels(BringDeviceKernels function) noexcept {
  g_bring.store(function);
  update_watch();
}

void device_kernels_are_there() noexcept {
  g_device_kernels_settled.store(true, std::memory_order_release);
  update_watch();
}

void probe_compilers() {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    const WaySetting setting = way_setting(device);
    if (setting == WaySetting::kHost || !runs_code(device)) continue;
    const std::optional<std::string> failure = compiler_failure(device);
    if (failure.has_value() && setting == WaySetting::kAuto) warn_of_compiler(device, *failure);
  }
}

void settle_device_kernels() {
  const BringDeviceKernels bring = g_bring.load();
  if (bring == nullptr || !(any_device_runs_code() || driver_has_library_calls())) {
    device_kernels_are_there();
    return;
  }
  bring();
}

}  // namespace outboard
