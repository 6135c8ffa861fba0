// Ordinary memory of the host that the driver was told of, so that transfers need no copy of it.
#pragma once

#include <c10/core/Storage.h>

#include "runtime/export.h"

namespace outboard {

// Makes the memory of a CPU storage pinned, and keeps it until it is unregistered. False where the
// driver cannot, and transfers go on as before. Raises ValueError for what is no memory of the
// host, is empty, or is registered or pinned already.
OUTBOARD_API bool register_host_memory(const c10::Storage& storage);
// Waits for all devices. Raises ValueError for what was not registered.
OUTBOARD_API void unregister_host_memory(const c10::Storage& storage);
// Whether `pointer` lies in such memory. Never initializes anything.
bool is_registered(const void* pointer) noexcept;

}  // namespace outboard
