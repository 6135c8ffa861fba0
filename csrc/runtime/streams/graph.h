// Graphs: work captured from a stream and replayed, behind torch.accelerator.Graph.
#pragma once

#include <c10/core/Device.h>

#include "runtime/export.h"

namespace outboard {

// Tells PyTorch how to capture on this device, under the name the device has by then. Does nothing
// with versions of PyTorch that have no graphs of accelerators.
OUTBOARD_API void register_graphs();

// Of a device: captured, or capturing.
int live_graphs(c10::DeviceIndex device) noexcept;

}  // namespace outboard
