#include "runtime/programs/compiler_probe.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_requests.h"
#include "runtime/driver/driver_table.h"
#include "runtime/programs/launch.h"
#include "runtime/programs/program.h"

namespace outboard {
namespace {

constexpr const char* kSource = R"(
__kernel void outboard_probe(uint count) {
  volatile uint i = get_global_id(0);
  if (i < count) i = count;
}
)";

std::array<std::atomic<bool>, kMaxDevices> g_fails = {};

// Devices of one model have one compiler: name, vendor, version.
using Compiler = std::tuple<std::string, std::string, std::string>;

// Leaked: devices are used while the process exits.
struct Failures {
  std::mutex mutex;  // no driver call is made under it
  std::map<Compiler, std::optional<std::string>> by_compiler;
};

Failures& failures() {
  static Failures* instance = new Failures;
  return *instance;
}

// A queue of its own, since the current stream may be capturing.
class Queue {
 public:
  explicit Queue(c10::DeviceIndex device) {
    check_status(create_queue(driver(), device, 0, &queue_), "queue_create");
  }
  ~Queue() { defer_status(OB_ASK(queue_destroy, queue_), "queue_destroy"); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ob_queue handle() const noexcept { return queue_; }

 private:
  ob_queue queue_ = nullptr;
};

void run_kernel(c10::DeviceIndex device) {
  Kernel& kernel = find_kernel(device, kSource, "outboard_probe");
  LaunchArguments arguments;
  arguments.value(uint32_t{1});
  ob_launch launch = {};
  launch.struct_size = sizeof(launch);
  launch.dimensions = 1;
  for (int i = 0; i < 3; ++i) launch.global[i] = launch.local[i] = 1;
  launch.arguments = arguments.data();
  launch.argument_count = arguments.size();
  launch.argument_bytes = sizeof(ob_argument);
  const Queue queue(device);
  const Kernel::Use use(kernel);
  launch.kernel = use.handle();
  OB_CALL(launch, queue.handle(), &launch);
  OB_CALL(queue_synchronize, queue.handle());
  kernel.note_launch(1 | uint64_t{1} << 20 | uint64_t{1} << 40);
}

std::optional<std::string> try_kernel(c10::DeviceIndex device) {
  try {
    run_kernel(device);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> compiler_failure(c10::DeviceIndex device) {
  const ob_device_properties& properties = device_properties(device);
  const Compiler compiler(properties.name, properties.vendor, properties.driver_version);
  Failures& all = failures();
  std::optional<std::string> failure;
  bool known = false;
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.by_compiler.find(compiler);
    known = found != all.by_compiler.end();
    if (known) failure = found->second;
  }
  if (!known) {
    failure = try_kernel(device);
    std::lock_guard<std::mutex> lock(all.mutex);
    failure = all.by_compiler.emplace(compiler, std::move(failure)).first->second;
  }
  g_fails[static_cast<size_t>(device)].store(failure.has_value());
  return failure;
}

bool compiler_is_known_to_fail(c10::DeviceIndex device) noexcept {
  return g_fails[static_cast<size_t>(device)].load(std::memory_order_relaxed);
}

}  // namespace outboard
