// Results of CPU kernels that become tensors of the device in place, over memory that both share:
// no new tensor, no new storage.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/export.h"

namespace outboard {

// Makes a CPU tensor, over memory that was allocated in a CpuCall, one of `device`. False, with
// nothing changed, if another owner has a reference to the tensor or to its storage, or if it is
// more than memory, dtype, sizes and strides. An object in Python counts as one reference: whether
// the object has other owners is for the caller to know.
OUTBOARD_API bool turn_into_device(const at::Tensor& tensor, c10::DeviceIndex device);

// Whether memory that a CPU storage owns is the device's own.
bool is_device_memory(const c10::DataPtr& pointer) noexcept;

// The same memory and owner, as memory of `device`.
c10::DataPtr renamed(c10::DataPtr pointer, c10::Device device);

// Makes a CPU storage over such memory, without other references, the device's.
void give_storage_to(c10::DeviceIndex device, c10::StorageImpl& storage);

}  // namespace outboard
