// CPU tensors over device memory that live no longer than a host kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/export.h"

namespace outboard {

// What a kernel does with an argument.
enum class Access : uint8_t {
  kRead = 0,   // copy-on-write storages stay shared
  kWrite = 1,  // may read and write, may resize
};

// A CPU tensor over the memory of `tensor`, for devices that share memory with the host; keeps the
// storage alive. For tensors that outlive the call; undefined tensors and those of other devices
// come back as they are.
OUTBOARD_API at::Tensor alias_as_cpu(const at::Tensor& tensor, Access access = Access::kWrite);

// The same for the length of one call, cheaper: the tensor and its storage come from a pool of the
// thread and go back there, and nothing keeps the device's storage alive but the caller. What a
// kernel keeps of the tensor in spite of that gets an owner when the alias dies.
class OUTBOARD_API CpuAlias {
 public:
  CpuAlias() = default;
  // `tensor` outlives the alias.
  explicit CpuAlias(const at::Tensor& tensor, Access access = Access::kWrite);
  ~CpuAlias() { release(); }
  CpuAlias(CpuAlias&& other) noexcept
      : tensor_(std::move(other.tensor_)), device_(std::exchange(other.device_, nullptr)) {}
  CpuAlias& operator=(CpuAlias&& other) noexcept {
    release();
    tensor_ = std::move(other.tensor_);
    device_ = std::exchange(other.device_, nullptr);
    return *this;
  }

  const at::Tensor& tensor() const noexcept { return tensor_; }
  // After `tensor`, over which this alias was made, got other memory, sizes or strides: the same
  // CPU tensor shows them.
  void follow(const at::Tensor& tensor);

 private:
  void release() noexcept {
    if (device_ != nullptr) give_back();
  }
  void give_back() noexcept;

  at::Tensor tensor_;
  // Of the storage under a tensor from the pool.
  c10::StorageImpl* device_ = nullptr;
};

// Parts that calls of host kernels are made of.

inline constexpr c10::DispatchKeySet kCpuKeys(c10::DispatchKey::CPU);

// A pointer into `storage` that keeps it alive, as memory of `device`.
OUTBOARD_API c10::DataPtr pointer_into(const c10::Storage& storage, c10::Device device,
                                       Access access = Access::kWrite);
// A CPU storage over the memory of a device storage, which it keeps alive.
c10::Storage cpu_storage_over(const c10::Storage& storage, Access access);
// A tensor over `storage` with everything else like `like`.
OUTBOARD_API at::Tensor tensor_over(c10::Storage storage, c10::DispatchKeySet keys,
                                    const at::Tensor& like);

}  // namespace outboard
