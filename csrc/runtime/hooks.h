// The accelerator hooks: how PyTorch's generic code reaches the runtime.
#pragma once

#include <c10/core/Storage.h>

#include "runtime/export.h"

namespace outboard {

// Makes this backend *the* accelerator of the process. Once; later calls do nothing.
OUTBOARD_API void register_hooks();

// Storage resizing is a copy, which is an operator's matter: the layer above hands it down.
using ResizeStorage = void (*)(c10::StorageImpl* storage, size_t bytes);
OUTBOARD_API void set_resize_storage(ResizeStorage function) noexcept;

}  // namespace outboard
