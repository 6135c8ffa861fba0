// Clones that share memory until one side is written to.
#include <ATen/core/Tensor.h>
#include <ATen/ops/clone.h>
#include <c10/core/impl/COW.h>
#include <torch/library.h>

#include <array>
#include <mutex>

#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/driver/device.h"
#include "runtime/process.h"
#include "runtime/streams/stream.h"
#include "tensors/storage_check.h"

namespace outboard {
namespace {

// Allocates on a device of its own, whichever is current: PyTorch asks the storage's allocator for
// memory when a shared storage is written to, and says nothing about the device.
class AllocatorOfDevice final : public c10::Allocator {
 public:
  explicit AllocatorOfDevice(c10::DeviceIndex device) : device_(device) {}
  c10::DataPtr allocate(size_t bytes) override {
    return caching_allocator()->with_address_as_owner(
        caching_allocator()->allocate_on(current_stream_state(device_), bytes));
  }
  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    const DeviceScope scope(device_);
    caching_allocator()->copy_data(destination, source, bytes);
  }

 private:
  c10::DeviceIndex device_;
};

c10::Allocator* allocator_of(c10::DeviceIndex device) {
  static auto* mutex = new std::mutex;
  static auto* allocators = new std::array<c10::Allocator*, kMaxDevices>();
  std::lock_guard<std::mutex> lock(*mutex);
  c10::Allocator*& allocator = (*allocators)[device];
  if (allocator == nullptr) allocator = new AllocatorOfDevice(device);
  return allocator;
}

at::Tensor lazy_clone(const at::Tensor& self) {
  check_fork();
  check_has_storage(self);
  c10::StorageImpl* storage = self.storage().unsafeGetStorageImpl();
  if (!c10::impl::cow::is_cow_data_ptr(storage->data_ptr())) {
    c10::DataPtr& memory = storage->_mutable_data_ptr_no_checks();
    memory = caching_allocator()->with_address_as_owner(std::move(memory));
  }
  storage->set_allocator(allocator_of(self.device().index()));
  c10::intrusive_ptr<c10::StorageImpl> shared = c10::impl::cow::lazy_clone_storage(*storage);
  // Memory that something else owns cannot be shared.
  if (shared == nullptr) return self.clone();
  at::Tensor clone = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(shared)),
                                                              self.key_set(), self.dtype());
  c10::TensorImpl* impl = clone.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(self.sizes(), self.strides(), self.storage_offset());
  return clone;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_lazy_clone", TORCH_FN(lazy_clone));
}

}  // namespace
}  // namespace outboard
