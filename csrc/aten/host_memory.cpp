#include "aten/host_memory.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/caching_allocator.h"
#include "runtime/device.h"
#include "runtime/driver_table.h"
#include "runtime/event.h"
#include "runtime/fork.h"
#include "runtime/stream.h"

namespace outboard {
namespace {

// What a device DataPtr over adopted memory owns.
struct Adopted {
  c10::Storage host;
  StreamState& stream;  // on which work may still use the memory when it is freed
  size_t bytes;
};

// Freed memory that a stream may still use. Leaked on purpose: tensors die at exit, too.
struct Pending {
  std::mutex mutex;
  std::deque<std::pair<Event, c10::Storage>> releases;
};

Pending& pending() {
  static auto* instance = new Pending;
  return *instance;
}

// Takes out what no stream uses any more, to be released outside of the mutex.
std::vector<c10::Storage> finished_releases() {
  std::vector<c10::Storage> finished;
  Pending& p = pending();
  std::lock_guard<std::mutex> lock(p.mutex);
  while (!p.releases.empty() && p.releases.front().first.query()) {
    finished.push_back(std::move(p.releases.front().second));
    p.releases.pop_front();
  }
  return finished;
}

void release_adopted(void* context) noexcept {
  auto* adopted = static_cast<Adopted*>(context);
  if (in_bad_fork() || driver_finalized()) {
    delete adopted;
    return;
  }
  caching_allocator()->account_adopted(adopted->stream.device,
                                       -static_cast<int64_t>(adopted->bytes));
  try {
    if (!adopted->stream.idle()) {
      Event event;
      event.record(adopted->stream.stream());
      Pending& p = pending();
      std::lock_guard<std::mutex> lock(p.mutex);
      p.releases.emplace_back(std::move(event), adopted->host);
    }
    delete adopted;
    finished_releases();
  } catch (const std::exception&) {
    // The driver cannot tell when the memory is free: it stays allocated, which is safe.
  }
}

c10::DataPtr adopt(const c10::Storage& host, c10::DeviceIndex device) {
  TORCH_CHECK_VALUE(host.device_type() == c10::DeviceType::CPU,
                    "memory can be adopted from a CPU storage, not from one on ", host.device());
  check_device_index(device);
  TORCH_CHECK_NOT_IMPLEMENTED(
      adopts_host_memory(device), "device ", device_of(device),
      " cannot use the host's memory as its own; copy with tensor.to(device) instead");
  void* pointer = host.mutable_data();
  if (pointer == nullptr) return c10::DataPtr(nullptr, device_of(device));
  auto* adopted = new Adopted{host, current_stream_state(device), host.nbytes()};
  caching_allocator()->account_adopted(device, static_cast<int64_t>(adopted->bytes));
  return c10::DataPtr(pointer, adopted, &release_adopted, device_of(device));
}

void check_device_storage(const c10::Storage& storage) {
  TORCH_CHECK_VALUE(storage.device_type() == c10::DeviceType::PrivateUse1,
                    "a storage of this backend is needed, not one on ", storage.device());
  check_fork();
}

}  // namespace

c10::Storage adopt_cpu_storage(const c10::Storage& host, c10::DeviceIndex device) {
  check_fork();
  finished_releases();
  return c10::Storage(c10::Storage::use_byte_size_t(), host.nbytes(), adopt(host, device),
                      caching_allocator(), /*resizable=*/false);
}

std::optional<c10::Storage> adopted_cpu_storage(const c10::Storage& storage) {
  const c10::DataPtr& pointer = storage.data_ptr();
  if (pointer.get_deleter() != &release_adopted) return std::nullopt;
  return static_cast<Adopted*>(pointer.get_context())->host;
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
