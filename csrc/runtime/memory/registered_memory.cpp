#include "runtime/memory/registered_memory.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
#include "runtime/memory/pinned_allocator.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

struct Registered {
  std::shared_mutex mutex;  // no driver call is made under it
  std::map<uintptr_t, c10::Storage> storages;
};

// Leaked: memory may stay registered until the process ends.
Registered& registered() {
  static auto* instance = new Registered;
  return *instance;
}

uintptr_t address_of(const c10::Storage& storage) {
  return reinterpret_cast<uintptr_t>(storage.data());
}

}  // namespace

bool register_host_memory(const c10::Storage& storage) {
  check_fork();
  TORCH_CHECK_VALUE(storage.device_type() == c10::DeviceType::CPU,
                    "memory of the host can be registered, not memory of ", storage.device());
  TORCH_CHECK_VALUE(storage.nbytes() > 0, "an empty tensor has no memory to be registered");
  TORCH_CHECK_VALUE(!is_pinned(storage.data()), "this memory is pinned or registered already");
  const ob_driver& table = driver();
  if (table.host_register == nullptr) return false;
  // Before that, PyTorch takes no memory for pinned.
  at::globalContext().lazyInitDevice(c10::DeviceType::PrivateUse1);
  void* pointer = storage.mutable_data();
  Registered& all = registered();
  {
    std::unique_lock<std::shared_mutex> lock(all.mutex);
    const bool added = all.storages.emplace(address_of(storage), storage).second;
    TORCH_CHECK_VALUE(added, "this memory is registered already");
  }
  const ob_status status = table.host_register(table.context, pointer, storage.nbytes());
  if (status != OB_OK) {
    std::unique_lock<std::shared_mutex> lock(all.mutex);
    all.storages.erase(address_of(storage));
  }
  if (status == OB_UNSUPPORTED) return false;
  check_status(status, "host_register");
  return true;
}

void unregister_host_memory(const c10::Storage& storage) {
  check_fork();
  TORCH_CHECK_VALUE(is_registered(storage.data()), "this memory was not registered");
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) synchronize_device(device);
  c10::Storage kept;
  {
    Registered& all = registered();
    std::unique_lock<std::shared_mutex> lock(all.mutex);
    auto node = all.storages.extract(address_of(storage));
    TORCH_CHECK_VALUE(!node.empty(), "this memory was not registered");
    kept = std::move(node.mapped());
  }
  OB_CALL(host_unregister, kept.mutable_data());
}

bool is_registered(const void* pointer) noexcept {
  if (in_bad_fork()) return false;
  Registered& all = registered();
  std::shared_lock<std::shared_mutex> lock(all.mutex);
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto after = all.storages.upper_bound(address);
  if (after == all.storages.begin()) return false;
  --after;
  return address - after->first < after->second.nbytes();
}

}  // namespace outboard
