// Devices: their number and properties, the current one of a thread, and their reset.
#pragma once

#include <c10/core/Device.h>
#include <outboard/driver.h>

#include "runtime/export.h"

namespace outboard {

constexpr int kMaxDevices = 64;

// 0 without a usable driver. The first call asks the driver for its devices and checks their
// properties.
OUTBOARD_API c10::DeviceIndex device_count() noexcept;
// The same, but raises the reason why there is no usable driver.
OUTBOARD_API c10::DeviceIndex device_count_or_throw();
// Raises for an index out of range, naming the range.
OUTBOARD_API void check_device_index(c10::DeviceIndex device);
OUTBOARD_API const ob_device_properties& device_properties(c10::DeviceIndex device);

OUTBOARD_API c10::DeviceIndex current_device() noexcept;
OUTBOARD_API void set_device(c10::DeviceIndex device);
// Sets the current device and returns the previous one. -1 sets nothing.
OUTBOARD_API c10::DeviceIndex exchange_device(c10::DeviceIndex device);

// Whether host code may use device addresses as pointers while the device is idle, so that CPU
// kernels need no copies.
OUTBOARD_API bool shares_host_memory(c10::DeviceIndex device);
// Whether the device can use any host memory, so that results of CPU kernels can be adopted.
OUTBOARD_API bool adopts_host_memory(c10::DeviceIndex device);

// Releases everything that the kit holds on a device and lets the driver reset it. Streams and
// events stay; work under way and deferred errors are dropped. No other thread may use the device
// meanwhile. Raises RuntimeError while tensors or captured graphs exist on it, NotImplementedError
// if the driver cannot reset.
OUTBOARD_API void reset_device(c10::DeviceIndex device);

inline c10::Device device_of(c10::DeviceIndex device) {
  return c10::Device(c10::DeviceType::PrivateUse1, device);
}

// Sets the current device for a scope.
class DeviceScope {
 public:
  explicit DeviceScope(c10::DeviceIndex device) : previous_(exchange_device(device)) {}
  ~DeviceScope() { exchange_device(previous_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  c10::DeviceIndex previous_;
};

}  // namespace outboard
