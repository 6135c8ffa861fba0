// The caching allocator of pinned host memory, on PyTorch's template.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "runtime/export.h"

namespace outboard {

// Registered as PyTorch's host allocator for PrivateUse1. Never destroyed.
OUTBOARD_API at::HostAllocator* pinned_allocator();
// Whether `pointer` lies in memory of that allocator, or in registered memory. Never initializes
// anything.
OUTBOARD_API bool is_pinned(const void* pointer);

}  // namespace outboard
