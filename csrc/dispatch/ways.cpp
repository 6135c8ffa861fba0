#include "dispatch/ways.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
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

std::atomic<bool> g_device_kernels_loaded{false};

namespace {

// What decides on a device: follows from the setting, the device and whether there is a table.
enum class Rule : uint8_t { kDevice, kHost, kWeigh };

struct DeviceWays {
  std::atomic<WaySetting> setting{WaySetting::kAuto};
  std::atomic<Rule> rule{Rule::kDevice};
  // Replaced as a whole; old ones may still be read, and are kept (`keep`).
  std::atomic<const SavingsTable*> savings{nullptr};
  // Nanoseconds by which the host would be ahead, at most kPatience or kHold, and the side the
  // program is on. Threads may overwrite each other's additions: these are estimates.
  std::atomic<int64_t> ahead{0};
  std::atomic<bool> on_host{false};
};

std::array<DeviceWays, kMaxDevices> g_devices;
std::atomic<DeviceKernelLoader> g_loader{nullptr};

DeviceWays& ways_of(c10::DeviceIndex device) { return g_devices.at(static_cast<size_t>(device)); }

// Typed host kernels do not ask the router while nobody watches it. All of them have to until it is
// known whether device kernels exist.
struct Watch {
  std::mutex mutex;
  bool watching = false;
};

Watch& watch() {
  static Watch* instance = new Watch;
  return *instance;
}

Rule rule_of(c10::DeviceIndex device, const DeviceWays& ways) {
  switch (ways.setting.load()) {
    case WaySetting::kDevice:
      return Rule::kDevice;
    case WaySetting::kHost:
      return Rule::kHost;
    case WaySetting::kAuto:
      break;
  }
  if (runs_code(device) && compiler_is_known_to_fail(device)) return Rule::kHost;
  const bool weighs = ways.savings.load() != nullptr && shares_host_memory(device);
  return weighs ? Rule::kWeigh : Rule::kDevice;
}

// Tables are switched back and forth, so what was there before is found again. Under the lock.
const SavingsTable* keep(SavingsTable table) {
  static auto* kept = new std::list<SavingsTable>;
  const auto found = std::find(kept->begin(), kept->end(), table);
  return found != kept->end() ? &*found : &kept->emplace_back(std::move(table));
}

// After a setting has changed.
void update_rules() {
  std::lock_guard<std::mutex> lock(watch().mutex);
  if (!g_device_kernels_loaded.load()) return;
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    ways_of(device).rule.store(rule_of(device, ways_of(device)));
  }
}

// After what operators know (`OperatorWays`) has changed: kernels or savings.
void update_operators() {
  update_rules();
  Watch& state = watch();
  std::lock_guard<std::mutex> lock(state.mutex);
  const bool loaded = g_device_kernels_loaded.load();
  if (loaded) publish_ways();
  const bool wanted = !loaded;
  if (wanted == state.watching) return;
  g_router_watchers += wanted ? 1 : -1;
  state.watching = wanted;
}

// Results of the two sides differ in the last digits, and host kernels cannot be captured.
bool may_change_sides(c10::DeviceIndex device) {
  return !at::globalContext().deterministicAlgorithms() &&
         !current_stream_state(device).capturing.load(std::memory_order_acquire);
}

// Adds a call to the balance of a device; whether the program is on the host now.
bool weigh(c10::DeviceIndex index, DeviceWays& device, int64_t saved) {
  const int64_t before = device.ahead.load(std::memory_order_relaxed);
  const int64_t most = std::max(kPatience, std::abs(before));
  const int64_t ahead = std::clamp(before + saved, -most, most);
  device.ahead.store(ahead, std::memory_order_relaxed);
  const bool on_host = device.on_host.load(std::memory_order_relaxed);
  if (std::abs(ahead) < kPatience || on_host == (ahead > 0)) return on_host;
  if (!may_change_sides(index)) return on_host;
  device.on_host.store(!on_host, std::memory_order_relaxed);
  return !on_host;
}

// Where the device is a CPU, a few calls are not worth compiling for.
bool begins_on_host(c10::DeviceIndex device) {
  return device_properties(device).kind == OB_DEVICE_CPU;
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

// For a program that began on the host, before its first device kernel. False: it stays there.
bool passes_probe(c10::DeviceIndex device) {
  if (!runs_code(device)) return true;
  const std::optional<std::string> failure = compiler_failure(device);
  if (!failure.has_value()) return true;
  warn_of_compiler(device, *failure);
  update_rules();
  return false;
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
  return ways_of(device).setting.load(std::memory_order_relaxed);
}

void set_way_setting(c10::DeviceIndex device, WaySetting setting) {
  if (device >= 0) {
    ways_of(device).setting.store(setting);
  } else {
    for (DeviceWays& each : g_devices) each.setting.store(setting);
  }
  if (g_device_kernels_loaded.load()) probe_compilers();
  update_rules();
}

void set_way_savings(c10::DeviceIndex device, std::optional<SavingsTable> table) {
  DeviceWays& ways = ways_of(device);
  {
    std::lock_guard<std::mutex> lock(watch().mutex);
    ways.savings.store(table.has_value() ? keep(std::move(*table)) : nullptr);
    ways.on_host.store(begins_on_host(device));
    ways.ahead.store(0);
  }
  update_operators();
}

SavingsTable way_savings(c10::DeviceIndex device) {
  const SavingsTable* table = ways_of(device).savings.load();
  return table != nullptr ? *table : SavingsTable();
}

const Savings* savings_of(c10::DeviceIndex device, std::string_view op, std::string_view family) {
  const SavingsTable* table = ways_of(device).savings.load();
  if (table == nullptr) return nullptr;
  auto found = table->find(op);
  if (found == table->end()) found = table->find(family);
  return found != table->end() ? &found->second : nullptr;
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

namespace {

// The way that a call has without being weighed.
std::optional<bool> fixed_way(c10::DeviceIndex device, Rule rule) {
  const InnerWay inner = InnerWayScope::current();
  if (inner == InnerWay::kHost || rule == Rule::kHost) return false;
  if (rule == Rule::kWeigh && inner != InnerWay::kDevice) return std::nullopt;
  if (compiler_is_known_to_fail(device)) refuse_device_way(device);
  return true;
}

}  // namespace

bool takes_device_way(const OperatorWays& ways, c10::DeviceIndex device, int64_t elements) {
  DeviceWays& on = ways_of(device);
  const std::optional<bool> fixed = fixed_way(device, on.rule.load(std::memory_order_relaxed));
  if (fixed.has_value()) return *fixed;
  const auto index = static_cast<size_t>(device);
  const Savings* saved = index < ways.saved.size() ? ways.saved[index] : nullptr;
  bool on_host = on.on_host.load(std::memory_order_relaxed);
  if (saved != nullptr) {
    const size_t size = std::bit_width(static_cast<uint64_t>(elements));
    on_host = weigh(device, on, (*saved)[std::min(size, saved->size() - 1)]);
  }
  return !on_host && device_way_works(device);
}

bool takes_device_way_by(c10::DeviceIndex device, int64_t saved) {
  DeviceWays& on = ways_of(device);
  const std::optional<bool> fixed = fixed_way(device, on.rule.load(std::memory_order_relaxed));
  if (fixed.has_value()) return *fixed;
  return !weigh(device, on, saved) && device_way_works(device);
}

bool may_try_ways(c10::DeviceIndex device) {
  return ways_of(device).rule.load(std::memory_order_relaxed) == Rule::kWeigh &&
         InnerWayScope::current() == InnerWay::kOpen && may_change_sides(device);
}

void put_program_on_side(c10::DeviceIndex device, bool host) {
  DeviceWays& on = ways_of(device);
  if (on.rule.load(std::memory_order_relaxed) != Rule::kWeigh) return;
  if (on.on_host.load(std::memory_order_relaxed) != host) {
    if (!may_change_sides(device)) return;
    on.on_host.store(host, std::memory_order_relaxed);
  }
  on.ahead.store(host ? kHold : -kHold, std::memory_order_relaxed);
}

void forget_side(c10::DeviceIndex device) {
  DeviceWays& on = ways_of(device);
  if (on.rule.load(std::memory_order_relaxed) != Rule::kWeigh || !may_change_sides(device)) return;
  on.on_host.store(begins_on_host(device), std::memory_order_relaxed);
  on.ahead.store(0, std::memory_order_relaxed);
}

bool device_way_works(c10::DeviceIndex device) {
  return compiler_is_known_to_work(device) || passes_probe(device);
}

bool stays_on_host(const OperatorWays& ways, c10::DeviceIndex device, int64_t elements) {
  if (ways.others) return false;
  const DeviceWays& on = ways_of(device);
  if (on.rule.load(std::memory_order_relaxed) == Rule::kWeigh &&
      !on.on_host.load(std::memory_order_relaxed) && InnerWayScope::current() != InnerWay::kHost) {
    return false;  // the router weighs it
  }
  return !takes_device_way(ways, device, elements);
}

void set_device_kernel_loader(DeviceKernelLoader function) noexcept {
  g_loader.store(function);
  update_operators();
}

void device_kernels_are_loaded() noexcept {
  g_device_kernels_loaded.store(true, std::memory_order_release);
  update_operators();
}

void probe_compilers() {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    const WaySetting setting = way_setting(device);
    if (setting == WaySetting::kHost || !runs_code(device)) continue;
    // Its first device kernel is early enough (takes_device_way).
    const DeviceWays& ways = ways_of(device);
    if (rule_of(device, ways) == Rule::kWeigh && ways.on_host.load()) continue;
    const std::optional<std::string> failure = compiler_failure(device);
    if (failure.has_value() && setting == WaySetting::kAuto) warn_of_compiler(device, *failure);
  }
}

void load_device_kernels_now() {
  const DeviceKernelLoader load = g_loader.load();
  if (load == nullptr || !(any_device_runs_code() || driver_has_library_calls())) {
    device_kernels_are_loaded();
    return;
  }
  load();
}

}  // namespace outboard
