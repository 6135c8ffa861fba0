// How PyTorch's generic code reaches the runtime: the accelerator hooks, the device guard, which
// registers itself, and the captured graphs behind torch.accelerator.Graph.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include "runtime/export.h"

namespace outboard {

// Makes this backend *the* accelerator of the process. Later calls do nothing.
OUTBOARD_API void register_hooks();

// Resizing a storage copies, and the layer above implements copies.
using ResizeStorage = void (*)(c10::StorageImpl* storage, size_t bytes);
OUTBOARD_API void set_resize_storage(ResizeStorage function) noexcept;

// Registers graphs under the current name of the device. Does nothing with versions of PyTorch that
// have no graphs of accelerators.
OUTBOARD_API void register_graphs();
// Number of captured and capturing graphs of a device.
int live_graphs(c10::DeviceIndex device) noexcept;

}  // namespace outboard
