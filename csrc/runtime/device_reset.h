// Making a lost device usable again.
#pragma once

#include <c10/core/Device.h>

#include "runtime/export.h"

namespace outboard {

// Gives back all that the kit has on a device and lets the driver reset it. Streams and events
// stay; work under way and failures not yet raised are dropped. No other thread may use the device
// meanwhile. Raises RuntimeError while tensors or captured graphs live there, NotImplementedError
// where the driver cannot reset.
OUTBOARD_API void reset_device(c10::DeviceIndex device);

}  // namespace outboard
