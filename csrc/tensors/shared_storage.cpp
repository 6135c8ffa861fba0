#include "tensors/shared_storage.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <utility>

#include "runtime/memory/adopted_memory.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/driver/device.h"
#include "runtime/fork.h"
#include "runtime/streams/stream.h"

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
  return adopt_host_memory(host, current_stream_state(device));
}

void check_device_storage(const c10::Storage& storage) {
  TORCH_CHECK_VALUE(storage.device_type() == c10::DeviceType::PrivateUse1,
                    "a storage of this backend is needed, not one on ", storage.device());
  check_fork();
}

}  // namespace

c10::Storage adopt_cpu_storage(const c10::Storage& host, c10::DeviceIndex device) {
  check_fork();
  return c10::Storage(c10::Storage::use_byte_size_t(), host.nbytes(), adopt(host, device),
                      caching_allocator(), /*resizable=*/false);
}

std::optional<c10::Storage> adopted_cpu_storage(const c10::Storage& storage) {
  const c10::Storage* host = adopted_storage(storage.data_ptr());
  if (host == nullptr) return std::nullopt;
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

c10::Storage alias_as_cpu_storage(const c10::Storage& storage) {
  check_device_storage(storage);
  const c10::DeviceIndex device = storage.device().index();
  TORCH_CHECK_NOT_IMPLEMENTED(shares_host_memory(device), "the host cannot reach the memory of ",
                              device_of(device), "; copy with tensor.cpu() instead");
  drain(current_stream_state(device));
  auto* owner = new c10::Storage(storage);
  c10::DataPtr pointer(
      storage.mutable_data(), owner,
      [](void* context) { delete static_cast<c10::Storage*>(context); },
      c10::Device(c10::DeviceType::CPU));
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(pointer),
                      /*allocator=*/nullptr, /*resizable=*/false);
}

}  // namespace outboard
