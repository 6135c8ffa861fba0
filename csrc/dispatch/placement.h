// Placement: where an operator runs, and the one rule that decides it.
//
// External kernels always run. For operators with a built-in device kernel, a device has one
// placement for all calls, which a setting or the first compiled graph changes.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

enum class Placement : uint8_t {
  kDevice = 0,  // a device kernel
  kHost = 1,    // a CPU kernel, on memory that host and device share
  kCopied = 2,  // a CPU kernel, on copies
};
constexpr int kPlacements = 3;

enum class PlacementSetting : uint8_t {
  // kHost on a CPU that shares the host's memory, until a graph was compiled for it; else kDevice
  kAuto = 0,
  kDevice = 1,  // built-in device kernels, wherever one serves the call
  kHost = 2,    // no built-in device kernel
};

OUTBOARD_API PlacementSetting placement_setting(c10::DeviceIndex device);
// device -1: every device, also those not counted yet.
OUTBOARD_API void set_placement_setting(c10::DeviceIndex device, PlacementSetting setting);

// Notes that a graph was compiled to device kernels: kAuto now means kDevice, since CPU kernels
// between graphs wait for the queue, and their threads spin on the processors that the next graph
// needs.
OUTBOARD_API void note_compiled_graph(c10::DeviceIndex device);

// Whether built-in device kernels run operators of the calling thread on `device`. Raises
// RuntimeError if the setting is kDevice and the device's compiler does not work.
OUTBOARD_API bool runs_on_device(c10::DeviceIndex device);

// Overrides the placement for the calling thread: kHost in CPU kernels that call other operators
// while they read and write memory themselves, so that the thread enqueues no device kernel;
// kDevice in device kernels that call other operators, because a CPU kernel would wait for the
// queue. kDevice does not override the setting kHost.
class OUTBOARD_API PlacementScope {
 public:
  explicit PlacementScope(PlacementSetting placement) noexcept
      : previous_(std::exchange(current(), placement)) {}
  ~PlacementScope() { current() = previous_; }
  C10_DISABLE_COPY_AND_ASSIGN(PlacementScope);
  // kAuto: not overridden.
  static PlacementSetting& current() noexcept;

 private:
  const PlacementSetting previous_;
};

// Call it after an operator allocates memory of `stream`: a CPU kernel in a scope of kHost
// writes the memory at once, and its previous user may have enqueued work since the kernel waited.
inline void wait_for_new_memory(StreamState& stream) {
  if (PlacementScope::current() == PlacementSetting::kHost) synchronize_stream(stream);
}

// Loads the built-in device kernels: called before the first routed call, without a lock, possibly
// by several threads at once, and only if a device runs code or the driver has library calls. It
// ends with device_kernels_are_loaded.
using DeviceKernelLoader = void (*)();
OUTBOARD_API void set_device_kernel_loader(DeviceKernelLoader function) noexcept;
OUTBOARD_API void device_kernels_are_loaded() noexcept;

// Tries the compilers of devices whose placement is kDevice. If one fails, kAuto means the host,
// with one warning, and kDevice raises.
OUTBOARD_API void probe_compilers();

extern OUTBOARD_API std::atomic<bool> g_device_kernels_loaded;
OUTBOARD_API void load_device_kernels_now();
// Loads the built-in device kernels into the router if a device can run them.
inline void ensure_device_kernels() {
  if (__builtin_expect(!g_device_kernels_loaded.load(std::memory_order_acquire), 0)) {
    load_device_kernels_now();
  }
}

}  // namespace outboard
