#include "tensors/host_view.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/PyObjectSlot.h>

#include <array>

#include "tensors/dense.h"

namespace outboard {
namespace {

void release_storage(void* context) {
  c10::intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(context));
}

// Tensors that no call uses, each with its storage and a stale data pointer.
struct Pool {
  std::array<at::Tensor, 16> tensors;
  size_t count = 0;
};
thread_local Pool t_pool;

// A tensor of only memory, sizes and strides.
bool is_plain(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return !impl->is_conj() && !impl->is_neg() && !impl->is_wrapped_number() &&
         !impl->key_set().has(c10::DispatchKey::ZeroTensor);
}

// The Python object of a tensor; null if there is none. `slot` is what `pyobj_slot()` returns,
// whose functions differ between versions of PyTorch.
template <class Slot>
PyObject* python_object(const Slot* slot) {
  if constexpr (requires { slot->load_pyobj(); }) {
    return slot->load_pyobj();
  } else {
    return slot->check_pyobj().value_or(nullptr);
  }
}

void* address_in(const c10::StorageImpl& storage, Access access) {
  return access == Access::kRead ? const_cast<void*>(storage.data())
                                 : const_cast<c10::StorageImpl&>(storage).mutable_data();
}

}  // namespace

c10::DataPtr pointer_into(const c10::Storage& storage, c10::Device device, Access access) {
  auto owner = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage.unsafeGetStorageImpl());
  void* data = address_in(*owner, access);
  return {data, owner.release(), &release_storage, device};
}

c10::Storage host_storage(const c10::Storage& storage, Access access) {
  return c10::Storage(
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
                                            pointer_into(storage, c10::Device(c10::kCPU), access),
                                            c10::GetCPUAllocator(), storage.resizable()));
}

c10::StorageImpl* device_storage_under(const c10::Storage& host) {
  const c10::DataPtr& pointer = host.data_ptr();
  return pointer.get_deleter() == &release_storage
             ? static_cast<c10::StorageImpl*>(pointer.get_context())
             : nullptr;
}

at::Tensor tensor_over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like) {
  c10::TensorImpl* from = like.unsafeGetTensorImpl();
  if (from->key_set().has(c10::DispatchKey::ZeroTensor)) {
    keys = keys.add(c10::DispatchKey::ZeroTensor);
  }
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, from->dtype());
  c10::TensorImpl* to = tensor.unsafeGetTensorImpl();
  to->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.is_conj()) to->_set_conj(true);
  if (like.is_neg()) to->_set_neg(true);
  if (from->is_wrapped_number()) to->set_wrapped_number(true);
  return tensor;
}

at::Tensor host_tensor(const at::Tensor& tensor, Access access) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
  check_has_storage(tensor);
  return tensor_over(host_storage(tensor.storage(), access), kCpuKeys, tensor);
}

HostView::HostView(const at::Tensor& tensor, Access access) {
  // Tensors made in inference mode have other keys.
  if (!tensor.defined() || !tensor.is_privateuseone() || !is_plain(tensor) ||
      c10::InferenceMode::is_enabled()) {
    tensor_ = host_tensor(tensor, access);
    return;
  }
  check_has_storage(tensor);
  c10::StorageImpl* device = tensor.storage().unsafeGetStorageImpl();
  c10::DataPtr memory(address_in(*device, access), c10::Device(c10::kCPU));
  Pool& pool = t_pool;
  if (pool.count == 0) {
    tensor_ = tensor_over(c10::Storage(c10::make_intrusive<c10::StorageImpl>(
                              c10::StorageImpl::use_byte_size_t(), device->nbytes(),
                              std::move(memory), c10::GetCPUAllocator(), device->resizable())),
                          kCpuKeys, tensor);
  } else {
    tensor_ = std::move(pool.tensors[--pool.count]);
    c10::TensorImpl* impl = tensor_.unsafeGetTensorImpl();
    c10::StorageImpl* storage = tensor_.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(std::move(memory));
    storage->set_nbytes(device->nbytes());
    storage->set_resizable(device->resizable());
    if (impl->dtype() != tensor.dtype()) {
      impl->set_storage_and_dtype(c10::Storage(tensor_.storage()), tensor.dtype());
    }
    // Successive calls often have operands of one shape.
    if (impl->sizes() != tensor.sizes() || impl->strides() != tensor.strides() ||
        impl->storage_offset() != tensor.storage_offset()) {
      impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    }
  }
  device_ = device;
}

void HostView::follow(const at::Tensor& tensor) {
  c10::StorageImpl* device = tensor.storage().unsafeGetStorageImpl();
  c10::StorageImpl* storage = tensor_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(device_ != nullptr
                                   ? c10::DataPtr(device->mutable_data(), c10::Device(c10::kCPU))
                                   : pointer_into(tensor.storage(), c10::Device(c10::kCPU)));
  storage->set_nbytes(device->nbytes());
  tensor_.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                       tensor.storage_offset());
}

void HostView::give_back() noexcept {
  c10::StorageImpl* device = std::exchange(device_, nullptr);
  c10::StorageImpl* storage = tensor_.storage().unsafeGetStorageImpl();
  // A kernel that resized the tensor replaced the memory by owned memory.
  const bool same_memory =
      storage->data_ptr().get_context() == nullptr && storage->data() == device->data();
  const bool held = tensor_.use_count() != 1 || tensor_.storage().use_count() != 1 ||
                    tensor_.weak_use_count() != 1;
  if (C10_UNLIKELY(held)) {
    if (same_memory) {
      storage->set_data_ptr_noswap(
          pointer_into(c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(device)),
                       c10::Device(c10::kCPU)));
    }
    return;
  }
  Pool& pool = t_pool;
  // A kernel in Python may have attached attributes to its argument.
  if (!same_memory || pool.count == pool.tensors.size() || !is_plain(tensor_) ||
      python_object(tensor_.unsafeGetTensorImpl()->pyobj_slot()) != nullptr) {
    return;
  }
  pool.tensors[pool.count++] = std::move(tensor_);
}

}  // namespace outboard
