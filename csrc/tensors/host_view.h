// CPU tensors over the memory of device tensors, for devices that share memory with the host. CPU
// kernels, graphs compiled for the CPU and other libraries access device memory by them.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/export.h"

namespace outboard {

// Use of an argument by a kernel.
enum class Access : uint8_t {
  kRead = 0,   // copy-on-write storages stay shared
  kWrite = 1,  // reads, writes, may resize
};

inline constexpr c10::DispatchKeySet kCpuKeys(c10::DispatchKey::CPU);

// ---- Owning views

// A pointer to the memory of `storage`, as memory of `device`. Owns a reference to the storage.
OUTBOARD_API c10::DataPtr pointer_into(const c10::Storage& storage, c10::Device device,
                                       Access access = Access::kWrite);
// A CPU storage over the memory of a device storage. Owns a reference to it.
OUTBOARD_API c10::Storage host_storage(const c10::Storage& storage, Access access);
// The device storage under a storage from `host_storage`; null for others, and after a kernel
// replaced the memory.
OUTBOARD_API c10::StorageImpl* device_storage_under(const c10::Storage& host);
// A tensor over `storage` with dtype, sizes, strides, offset and bits of `like`.
OUTBOARD_API at::Tensor tensor_over(c10::Storage storage, c10::DispatchKeySet keys,
                                    const at::Tensor& like);
// A CPU tensor over the memory of `tensor`. Owns a reference to its storage. Undefined tensors and
// those of other devices are returned unchanged.
OUTBOARD_API at::Tensor host_tensor(const at::Tensor& tensor, Access access = Access::kWrite);

// ---- Views for one call

// A CPU tensor over the memory of a device tensor, cheaper than `host_tensor`: tensor and storage
// come from a pool of the thread, and only the caller holds the device storage. If a kernel still
// holds the view when the HostView is destroyed, the view gets a reference to the storage.
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
  // Updates memory, sizes and strides from `tensor`, the tensor of this view.
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
