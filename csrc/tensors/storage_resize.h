// Growing and shrinking of storages on a device.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstddef>

#include "runtime/export.h"

namespace outboard {

// Gives `storage` new memory of `bytes` on its device and keeps the content as far as it fits; the
// copy runs on the device's current stream. Raises if the storage is not resizable.
OUTBOARD_API void resize_storage_bytes(c10::StorageImpl* storage, size_t bytes);

}  // namespace outboard
