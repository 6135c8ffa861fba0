// Storages over the same bytes: of host and device, and of two processes.
#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/export.h"

namespace outboard {

// A device storage over the memory of a CPU storage, to which it owns a reference. Not resizable.
// Raises unless the device can use any host memory.
OUTBOARD_API c10::Storage adopt_cpu_storage(const c10::Storage& host, c10::DeviceIndex device);

// The CPU storage that `storage` was adopted from, if it was.
OUTBOARD_API std::optional<c10::Storage> adopted_cpu_storage(const c10::Storage& storage);

// Moves the content of a device storage into a CPU storage of the same size. The device storage,
// and with it every tensor on it, is adopted memory afterwards. Waits for the device.
OUTBOARD_API void move_to_cpu_storage(const c10::Storage& storage, const c10::Storage& host);

// `host_storage` (host_view.h) for other libraries: not resizable, and after the current stream's
// work. The caller orders later work of device and host. Raises NotImplementedError where host and
// device do not share memory.
OUTBOARD_API c10::Storage exported_host_storage(const c10::Storage& storage);

// Description of a storage's memory for another process: the fields of ob_memory_handle.
struct ExportedMemory {
  int descriptor;  // the caller closes it
  std::string data;
};

// Whether the driver can share device memory with other processes.
OUTBOARD_API bool shares_with_processes();

// Exports a device storage, which is not empty. The first time, its bytes move into memory that
// other processes can use, and with it every tensor on it. Waits for the device. Raises
// NotImplementedError where the driver cannot, torch.OutOfMemoryError where there is no memory.
OUTBOARD_API ExportedMemory export_storage(const c10::Storage& storage);
// A device storage over exported memory of `bytes`, not resizable. Raises ValueError for invalid
// memory. The caller owns the descriptor.
OUTBOARD_API c10::Storage import_storage(c10::DeviceIndex device, int descriptor, uint64_t bytes,
                                         const std::string& data);

}  // namespace outboard
