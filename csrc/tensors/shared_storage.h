// Storages of host and device over the same bytes.
#pragma once

#include <c10/core/Storage.h>

#include <optional>

#include "runtime/export.h"

namespace outboard {

// A device storage over the memory of a CPU storage, which it keeps alive. Not resizable. Raises
// unless the device can use any host memory.
OUTBOARD_API c10::Storage adopt_cpu_storage(const c10::Storage& host, c10::DeviceIndex device);

// The CPU storage that `storage` was adopted from, if it was.
OUTBOARD_API std::optional<c10::Storage> adopted_cpu_storage(const c10::Storage& storage);

// Moves what a device storage holds into a CPU storage of the same size: afterwards the device
// storage, and with it every tensor on it, is adopted memory. Waits for the device.
OUTBOARD_API void move_to_cpu_storage(const c10::Storage& storage, const c10::Storage& host);

// A CPU storage over the memory of a device storage, which it keeps alive. Waits for the current
// stream; later work on the device and on the host is for the caller to order. Raises where host
// and device do not share memory.
OUTBOARD_API c10::Storage alias_as_cpu_storage(const c10::Storage& storage);

}  // namespace outboard
