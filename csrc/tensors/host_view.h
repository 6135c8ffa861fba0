// CPU tensors over the memory of device tensors, for devices that share memory with the host: how a
// CPU kernel, a graph compiled for the CPU, and other libraries see device memory.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/export.h"

namespace outboard {

// What a kernel does with an argument.
enum class Access : uint8_t {
  kRead = 0,   // copy-on-write storages stay shared
  kWrite = 1,  // may read and write, may resize
};

inline constexpr c10::DispatchKeySet kCpuKeys(c10::DispatchKey::CPU);

// ---- Views that own ----

// A pointer into `storage` that keeps it alive, as memory of `device`.
OUTBOARD_API c10::DataPtr pointer_into(const c10::Storage& storage, c10::Device device,
                                       Access access = Access::kWrite);
// A CPU storage over the memory of a device storage, which it keeps alive.
OUTBOARD_API c10::Storage host_storage(const c10::Storage& storage, Access access);
// The storage that `host` keeps alive, for a storage from `host_storage`; null for others, and
// after a kernel gave it other memory.
OUTBOARD_API c10::StorageImpl* device_storage_under(const c10::Storage& host);
// A tensor over `storage` with dtype, sizes, strides, offset and bits of `like`.
OUTBOARD_API at::Tensor tensor_over(c10::Storage storage, c10::DispatchKeySet keys,
                                    const at::Tensor& like);
// A CPU tensor over the memory of `tensor`, whose storage it keeps alive. Undefined tensors and
// those of other devices come back as they are.
OUTBOARD_API at::Tensor host_tensor(const at::Tensor& tensor, Access access = Access::kWrite);

// ---- Views for the length of one call ----

// A CPU tensor over the memory of a device tensor, cheaper than `host_tensor`: tensor and storage
// come from a pool of the thread and return to it, and only the caller keeps the device storage
// alive. A view that a kernel still holds afterwards gets an owner when the HostView dies.
class OUTBOARD_API HostView {
 public:
  HostView() = default;
  // `tensor` outlives the view.
  explicit HostView(const at::Tensor& tensor, Access access = Access::kWrite);
  ~HostView() { release(); }
  HostView(HostView&& other) noexcept
      : tensor_(std::move(other.tensor_)), device_(std::exchange(other.device_, nullptr)) {}
  HostView& operator=(HostView&& other) noexcept {
    release();
    tensor_ = std::move(other.tensor_);
    device_ = std::exchange(other.device_, nullptr);
    return *this;
  }

  const at::Tensor& tensor() const noexcept { return tensor_; }
  // Shows the memory, sizes and strides that `tensor`, of which this is a view, got since then.
  void follow(const at::Tensor& tensor);

 private:
  void release() noexcept {
    if (device_ != nullptr) give_back();
  }
  void give_back() noexcept;

  at::Tensor tensor_;
  c10::StorageImpl* device_ = nullptr;  // null if `tensor_` is not from the pool
};

}  // namespace outboard
