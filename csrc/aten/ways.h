// Whether the kit's device kernels or its host kernels run an operator: a setting per device.
// Kernels of makers and users are not concerned; they always run.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>

#include "runtime/export.h"

namespace outboard {

enum class WaySetting : uint8_t {
  kAuto = 0,    // whatever is better, by takes_device_way
  kDevice = 1,  // the kit's device kernels, wherever one serves
  kHost = 2,    // never
};

OUTBOARD_API WaySetting way_setting(c10::DeviceIndex device);
// device -1: every device, also those that are not known yet.
OUTBOARD_API void set_way_setting(c10::DeviceIndex device, WaySetting setting);

// The one place that decides for a call that a device kernel of the kit could serve. `family` says
// what kind of work it is, `elements` how much: of the first tensor argument, 0 for a factory.
OUTBOARD_API bool takes_device_way(c10::DeviceIndex device, const char* family, int64_t elements);

// Brings the kit's device kernels: called before the first routed call, with no lock held, possibly
// by several threads at once, and on a device that can run code only. It ends with
// device_kernels_are_there.
using BringDeviceKernels = void (*)();
OUTBOARD_API void set_bring_device_kernels(BringDeviceKernels function) noexcept;
OUTBOARD_API void device_kernels_are_there() noexcept;

extern OUTBOARD_API std::atomic<bool> g_device_kernels_settled;
OUTBOARD_API void settle_device_kernels();
// Makes sure that the router knows the kit's device kernels, if they can be of use.
inline void ensure_device_kernels() {
  if (__builtin_expect(!g_device_kernels_settled.load(std::memory_order_acquire), 0)) {
    settle_device_kernels();
  }
}

}  // namespace outboard
