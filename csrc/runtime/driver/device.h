// Devices: how many, what they are, and which one is current in this thread.
#pragma once

#include <c10/core/Device.h>
#include <outboard/driver.h>

#include "runtime/export.h"

namespace outboard {

constexpr int kMaxDevices = 64;

// 0 when there is no usable driver; probes devices at the first call.
OUTBOARD_API c10::DeviceIndex device_count() noexcept;
// Raises the reason where device_count() hides it.
OUTBOARD_API c10::DeviceIndex device_count_or_throw();
// Raises for an index out of range, naming the range.
OUTBOARD_API void check_device_index(c10::DeviceIndex device);
OUTBOARD_API const ob_device_properties& device_properties(c10::DeviceIndex device);

OUTBOARD_API c10::DeviceIndex current_device() noexcept;
OUTBOARD_API void set_device(c10::DeviceIndex device);
// Sets and returns the previous one. -1 leaves it.
OUTBOARD_API c10::DeviceIndex exchange_device(c10::DeviceIndex device);

// Host code may use device addresses as pointers while the device is idle: host kernels need no
// copies.
OUTBOARD_API bool shares_host_memory(c10::DeviceIndex device);
// Any host memory can be handed to the device: results of host kernels can be adopted.
OUTBOARD_API bool adopts_host_memory(c10::DeviceIndex device);

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
