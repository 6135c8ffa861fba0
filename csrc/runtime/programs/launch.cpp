#include "runtime/programs/launch.h"

#include <atomic>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/programs/device_assert.h"
#include "runtime/recording/recording.h"

namespace outboard {
namespace {

ob_launch describe(const Grid& grid, const LaunchArguments& arguments) noexcept {
  return {.struct_size = sizeof(ob_launch),
          .kernel = nullptr,
          .dimensions = grid.dimensions,
          .global = {grid.global[0], grid.global[1], grid.global[2]},
          .local = {grid.local[0], grid.local[1], grid.local[2]},
          .arguments = arguments.data(),
          .argument_count = arguments.size(),
          .argument_bytes = sizeof(ob_argument),
          .start = nullptr,
          .end = nullptr};
}

// The sizes of a work-group, 20 bits each.
uint64_t local_size(const Grid& grid) noexcept {
  return grid.local[0] | grid.local[1] << 20 | grid.local[2] << 40;
}

// ---- The test launch ----

constexpr const char* kProbeSource = R"(
__kernel void outboard_probe(uint count) {
  volatile uint i = get_global_id(0);
  if (i < count) i = count;
}
)";

std::array<std::atomic<bool>, kMaxDevices> g_fails = {};

// Name, vendor and driver version of a device.
using Compiler = std::tuple<std::string, std::string, std::string>;

// No driver call is made with its lock.
struct Failures {
  std::map<Compiler, std::optional<std::string>> by_compiler;
};

void run_probe(c10::DeviceIndex device) {
  Kernel& kernel = find_kernel(device, kProbeSource, "outboard_probe");
  LaunchArguments arguments;
  arguments.value(uint32_t{1});
  const Grid grid;
  ob_launch description = describe(grid, arguments);
  const TemporaryQueue queue(device);
  const Kernel::Use use(kernel);
  description.kernel = use.handle();
  OB_CALL(launch, queue.get(), &description);
  OB_CALL(queue_synchronize, queue.get());
  kernel.note_launch(local_size(grid));
}

std::optional<std::string> try_kernel(c10::DeviceIndex device) {
  try {
    run_probe(device);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return std::nullopt;
}

}  // namespace

void launch(StreamState& stream, Kernel& kernel, const Grid& grid,
            const LaunchArguments& arguments) {
  ob_launch description = describe(grid, arguments);
  const ob_driver& table = driver();
  RecordedWork record(stream, ActivityKind::kKernel, "launch");
  if (record) record.describe(kernel.name(), description, arguments.local_bytes());
  {
    const Kernel::Use use(kernel);
    description.kernel = use.handle();
    kernel.check_limits(grid.local[0] * grid.local[1] * grid.local[2], arguments.local_bytes());
    check_status(table.launch(table.context, stream.queue, &description), "launch");
  }
  stream.mark_submitted();
  record.enqueued();
  if (C10_UNLIKELY(launches_block()) && !stream.capturing.load()) synchronize_stream(stream);
  kernel.note_launch(local_size(grid));
}

std::optional<std::string> compiler_failure(c10::DeviceIndex device) {
  const ob_device_properties& properties = device_properties(device);
  const Compiler compiler(properties.name, properties.vendor, properties.driver_version);
  std::optional<std::string> failure;
  bool known = false;
  {
    const Locked<Failures> all;
    const auto found = all->by_compiler.find(compiler);
    known = found != all->by_compiler.end();
    if (known) failure = found->second;
  }
  if (!known) {
    failure = try_kernel(device);
    const Locked<Failures> all;
    failure = all->by_compiler.emplace(compiler, std::move(failure)).first->second;
  }
  g_fails[static_cast<size_t>(device)].store(failure.has_value());
  return failure;
}

bool compiler_is_known_to_fail(c10::DeviceIndex device) noexcept {
  return g_fails[static_cast<size_t>(device)].load(std::memory_order_relaxed);
}

}  // namespace outboard
