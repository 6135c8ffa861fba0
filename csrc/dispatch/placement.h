// Placement: where an operator runs, and the one rule that decides it.
//
// Kernels of hardware vendors and users always run. For an operator with one of the kit's device
// kernels, a device has one answer for all calls, which a setting or the first compiled graph
// changes.
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
  kDevice = 1,  // the kit's device kernels, wherever one serves the call
  kHost = 2,    // none of the kit's device kernels
};

OUTBOARD_API PlacementSetting placement_setting(c10::DeviceIndex device);
// device -1: every device, also those that are not known yet.
OUTBOARD_API void set_placement_setting(c10::DeviceIndex device, PlacementSetting setting);

// A graph was compiled to device kernels: kAuto means kDevice from now on, since CPU kernels
// between graphs wait for the queue, and their threads spin on the processors that the next graph
// needs.
OUTBOARD_API void note_compiled_graph(c10::DeviceIndex device);

// Whether the kit's device kernels run operators of the calling thread on `device`.
// Raises RuntimeError if the setting is kDevice and the device's compiler does not work.
OUTBOARD_API bool runs_on_device(c10::DeviceIndex device);

// Overrides the answer for the calling thread.
class OUTBOARD_API PlacementScope {
 public:
  explicit PlacementScope(PlacementSetting placement) noexcept
      : previous_(std::exchange(current(), placement)) {}
  ~PlacementScope() { current() = previous_; }
  PlacementScope(const PlacementScope&) = delete;
  PlacementScope& operator=(const PlacementScope&) = delete;
  // kAuto: the device's answer.
  static PlacementSetting& current() noexcept;

 private:
  const PlacementSetting previous_;
};

// For CPU kernels that call other operators while they read and write memory themselves: in this
// scope the thread enqueues no device kernel.
class HostPlacementScope : PlacementScope {
 public:
  HostPlacementScope() noexcept : PlacementScope(PlacementSetting::kHost) {}
};

// For device kernels that call other operators: a CPU kernel would wait for the
// queue. Does not override the setting kHost.
class DevicePlacementScope : PlacementScope {
 public:
  DevicePlacementScope() noexcept : PlacementScope(PlacementSetting::kDevice) {}
};

// To be called with new memory of `stream` that an operator allocates: a CPU kernel in a
// HostPlacementScope writes it at once, and the previous user of the memory may have enqueued work
// since that kernel waited.
inline void wait_for_new_memory(StreamState& stream) {
  if (PlacementScope::current() == PlacementSetting::kHost) synchronize_stream(stream);
}

// Loads the kit's device kernels: called before the first routed call, without a lock, possibly by
// several threads at once, and only where a device runs code or the driver has library calls. It
// ends with device_kernels_are_loaded.
using DeviceKernelLoader = void (*)();
OUTBOARD_API void set_device_kernel_loader(DeviceKernelLoader function) noexcept;
OUTBOARD_API void device_kernels_are_loaded() noexcept;

// Tries the compilers of devices that are to run device kernels. Where one does not work, kAuto
// means the host, with one warning, and kDevice raises.
OUTBOARD_API void probe_compilers();

extern OUTBOARD_API std::atomic<bool> g_device_kernels_loaded;
OUTBOARD_API void load_device_kernels_now();
// Makes sure that the router knows the kit's device kernels, if a device can run them.
inline void ensure_device_kernels() {
  if (__builtin_expect(!g_device_kernels_loaded.load(std::memory_order_acquire), 0)) {
    load_device_kernels_now();
  }
}

}  // namespace outboard
