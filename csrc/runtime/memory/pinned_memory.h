// Pinned host memory: of the caching allocator, on PyTorch's template, and ordinary memory that was
// registered with the driver. Transfers need no copy of either.
#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/Storage.h>

#include "runtime/export.h"

namespace outboard {

// PyTorch's host allocator for PrivateUse1. Never destroyed.
OUTBOARD_API at::HostAllocator* pinned_allocator();
// Whether `pointer` lies in memory of that allocator or in registered memory. Initializes nothing.
OUTBOARD_API bool is_pinned(const void* pointer);

// Pins the memory of a CPU storage and keeps the storage alive until it is unregistered. False if
// the driver cannot pin it; transfers then copy as before. Raises ValueError for memory of a
// device, for empty storages, and for memory that is pinned already.
OUTBOARD_API bool register_host_memory(const c10::Storage& storage);
// Waits for all devices. Raises ValueError for memory that is not registered.
OUTBOARD_API void unregister_host_memory(const c10::Storage& storage);
// Whether `pointer` lies in registered memory. Initializes nothing.
bool is_registered(const void* pointer) noexcept;

}  // namespace outboard
