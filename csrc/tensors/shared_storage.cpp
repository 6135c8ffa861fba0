#include "tensors/shared_storage.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/streams/stream.h"
#include "tensors/dense.h"
#include "tensors/host_view.h"

namespace outboard {
namespace {

c10::DataPtr adopt(const c10::Storage& host, c10::DeviceIndex device) {
  TORCH_CHECK_VALUE(host.device_type() == c10::DeviceType::CPU,
                    "memory can be adopted from a CPU storage, not from one on ", host.device());
  check_device_index(device);
  TORCH_CHECK_NOT_IMPLEMENTED(
      adopts_host_memory(device), "device ", device_of(device),
      " cannot use the host's memory as its own; copy with tensor.to(device) instead");
  if (host.mutable_data() == nullptr) return c10::DataPtr(nullptr, device_of(device));
  return adopt_memory(host, current_stream_state(device));
}

void check_device_storage(const c10::Storage& storage) {
  TORCH_CHECK_VALUE(storage.device_type() == c10::DeviceType::PrivateUse1,
                    "a storage of this backend is needed, not one on ", storage.device());
  check_fork();
}

// Memory of the driver outside of caches: shareable, or imported.
struct DriverMemory {
  c10::DeviceIndex device;
  ob_address address;
  bool imported;
};

void give_back(void* context) noexcept {
  const std::unique_ptr<DriverMemory> memory(static_cast<DriverMemory*>(context));
  if (usable_driver() == nullptr) return;
  if (memory->imported) {
    defer_status(OB_ASK(memory_close, memory->device, memory->address), "memory_close");
  } else {
    defer_status(OB_ASK(deallocate, memory->device, memory->address), "deallocate");
  }
}

c10::Storage own(const DriverMemory& memory, size_t bytes) {
  c10::DataPtr pointer(reinterpret_cast<void*>(memory.address), new DriverMemory(memory),
                       &give_back, device_of(memory.device));
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(pointer),
                      /*allocator=*/nullptr, /*resizable=*/false);
}

c10::Storage allocate_shareable(c10::DeviceIndex device, size_t bytes) {
  ob_address address = 0;
  ob_status status = allocate_memory(driver(), device, bytes, &address, OB_ALLOCATION_SHAREABLE);
  if (status == OB_OUT_OF_MEMORY) {
    release_unused_adopted_memory(/*wait=*/true);
    caching_allocator()->emptyCache({0, 0});
    status = allocate_memory(driver(), device, bytes, &address, OB_ALLOCATION_SHAREABLE);
  }
  check_status(status, "allocate");
  return own({device, address, /*imported=*/false}, bytes);
}

// The driver's memory of a storage, if it can be exported.
const DriverMemory* driver_memory(const c10::Storage& storage) {
  const c10::Storage* owner = adopted_storage(storage.data_ptr());
  if (owner == nullptr || owner->data_ptr().get_deleter() != &give_back) return nullptr;
  return static_cast<const DriverMemory*>(owner->data_ptr().get_context());
}

const DriverMemory& make_shareable(const c10::Storage& storage) {
  if (const DriverMemory* memory = driver_memory(storage)) return *memory;
  const c10::DeviceIndex device = storage.device().index();
  const c10::Storage owner = allocate_shareable(device, storage.nbytes());
  StreamState& stream = current_stream_state(device);
  copy_within_device(stream, owner.mutable_data(), storage.data(), storage.nbytes());
  synchronize_stream(stream);
  storage.set_data_ptr(adopt_memory(owner, stream));
  storage.unsafeGetStorageImpl()->set_resizable(false);
  return *driver_memory(storage);
}

}  // namespace

c10::Storage adopt_cpu_storage(const c10::Storage& host, c10::DeviceIndex device) {
  check_fork();
  return c10::Storage(c10::Storage::use_byte_size_t(), host.nbytes(), adopt(host, device),
                      caching_allocator(), /*resizable=*/false);
}

std::optional<c10::Storage> adopted_cpu_storage(const c10::Storage& storage) {
  const c10::Storage* host = adopted_storage(storage.data_ptr());
  if (host == nullptr || host->device_type() != c10::DeviceType::CPU) return std::nullopt;
  return *host;
}

void move_to_cpu_storage(const c10::Storage& storage, const c10::Storage& host) {
  check_device_storage(storage);
  TORCH_CHECK_VALUE(host.nbytes() == storage.nbytes(),
                    "the storages have different sizes: ", storage.nbytes(), " and ", host.nbytes(),
                    " bytes");
  const c10::DeviceIndex device = storage.device().index();
  c10::DataPtr adopted = adopt(host, device);
  synchronize_device(device);
  if (storage.nbytes() > 0) std::memcpy(host.mutable_data(), storage.data(), storage.nbytes());
  storage.set_data_ptr(std::move(adopted));
  storage.unsafeGetStorageImpl()->set_resizable(false);
}

c10::Storage exported_host_storage(const c10::Storage& storage) {
  check_device_storage(storage);
  const c10::DeviceIndex device = storage.device().index();
  TORCH_CHECK_NOT_IMPLEMENTED(shares_host_memory(device), "the host cannot reach the memory of ",
                              device_of(device), "; copy with tensor.cpu() instead");
  synchronize_stream(current_stream_state(device));
  c10::Storage host = host_storage(storage, Access::kWrite);
  host.unsafeGetStorageImpl()->set_resizable(false);
  return host;
}

bool shares_with_processes() { return driver().memory_export != nullptr; }

ExportedMemory export_storage(const c10::Storage& storage) {
  check_device_storage(storage);
  TORCH_CHECK_NOT_IMPLEMENTED(shares_with_processes(), "driver '", driver().name,
                              "' cannot share memory with other processes; send tensor.cpu()");
  TORCH_CHECK_VALUE(storage.nbytes() > 0, "an empty storage has no memory to share");
  synchronize_device(storage.device().index());
  const DriverMemory& memory = make_shareable(storage);
  ob_memory_handle handle = {};
  handle.struct_size = sizeof(handle);
  OB_CALL(memory_export, memory.device, memory.address, &handle);
  return {handle.descriptor,
          std::string(reinterpret_cast<const char*>(handle.data), sizeof(handle.data))};
}

c10::Storage import_storage(c10::DeviceIndex device, int descriptor, uint64_t bytes,
                            const std::string& data) {
  check_fork();
  check_device_index(device);
  TORCH_CHECK_NOT_IMPLEMENTED(driver().memory_import != nullptr, "driver '", driver().name,
                              "' cannot use memory of other processes; send tensor.cpu()");
  ob_memory_handle handle = {};
  handle.struct_size = sizeof(handle);
  handle.descriptor = descriptor;
  handle.bytes = bytes;
  std::memcpy(handle.data, data.data(), std::min(data.size(), sizeof(handle.data)));
  ob_address address = 0;
  OB_CALL(memory_import, device, &handle, &address);
  const c10::Storage owner = own({device, address, /*imported=*/true}, bytes);
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                      adopt_memory(owner, current_stream_state(device)), caching_allocator(),
                      /*resizable=*/false);
}

}  // namespace outboard
