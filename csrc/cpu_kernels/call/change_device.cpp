#include "cpu_kernels/call/change_device.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>

#include <typeinfo>

#include "runtime/driver/device.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/memory/cpu_kernel_memory.h"

namespace outboard {
namespace {

// The keys of a tensor that is nothing but memory, as the constructor of TensorImpl makes them.
c10::DispatchKeySet keys_of_plain(c10::DispatchKey key, bool inference) {
  const c10::InferenceMode mode(inference);
  return c10::make_intrusive<c10::TensorImpl>(
             c10::DispatchKeySet(key), caffe2::TypeMeta::Make<float>(), c10::Device(c10::kCPU))
      ->key_set();
}

struct PlainKeys {
  explicit PlainKeys(c10::DispatchKey key)
      : usual(keys_of_plain(key, false)), inference(keys_of_plain(key, true)) {}
  bool has(c10::DispatchKeySet keys) const { return keys == usual || keys == inference; }

  const c10::DispatchKeySet usual;
  const c10::DispatchKeySet inference;
};

bool is_nothing_but_memory(const at::Tensor& tensor, const PlainKeys& keys) {
  if (!tensor.defined() || tensor.use_count() != 1 || tensor.weak_use_count() != 1) return false;
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return keys.has(impl->key_set()) && typeid(*impl) == typeid(c10::TensorImpl) &&
         impl->autograd_meta() == nullptr && impl->has_storage() && !impl->is_wrapped_number() &&
         !impl->has_symbolic_sizes_strides() && impl->allow_tensor_metadata_change() &&
         impl->storage().use_count() == 1;
}

// After its storage changed devices.
void follow_storage(c10::TensorImpl* impl) {
  impl->_change_backend_component_keys(impl->storage().device());
  impl->set_storage_keep_dtype(c10::Storage(impl->storage()));
}

}  // namespace

bool is_device_memory(const c10::DataPtr& pointer) noexcept {
  return is_cpu_kernel_memory(pointer) || caching_allocator()->owns(pointer);
}

c10::DataPtr renamed(c10::DataPtr pointer, c10::Device device) {
  const c10::DeleterFnPtr deleter = pointer.get_deleter();
  void* data = pointer.get();
  return {data, pointer.release_context(), deleter, device};
}

void give_storage_to(c10::DeviceIndex device, c10::StorageImpl& storage) {
  c10::DataPtr& memory = storage._mutable_data_ptr_no_checks();
  c10::DataPtr owned;
  if (is_cpu_kernel_memory(memory)) owned = caching_allocator()->own_addressed(memory.get());
  if (owned) {
    memory.release_context();
    memory = std::move(owned);
  } else {
    memory = renamed(std::move(memory), device_of(device));
  }
  storage.set_allocator(caching_allocator());
  storage.set_resizable(true);
}

bool turn_into_cpu(const at::Tensor& tensor) {
  static const PlainKeys keys(c10::DispatchKey::PrivateUse1);
  if (!is_nothing_but_memory(tensor, keys)) return false;
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  c10::StorageImpl* storage = impl->storage().unsafeGetStorageImpl();
  c10::DataPtr& memory = storage->_mutable_data_ptr_no_checks();
  if (!is_device_memory(memory)) return false;
  memory = renamed(std::move(memory), c10::Device(c10::kCPU));
  storage->set_allocator(c10::GetCPUAllocator());
  follow_storage(impl);
  return true;
}

bool turn_into_device(const at::Tensor& tensor, c10::DeviceIndex device) {
  static const PlainKeys keys(c10::DispatchKey::CPU);
  if (!is_nothing_but_memory(tensor, keys)) return false;
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  c10::StorageImpl* storage = impl->storage().unsafeGetStorageImpl();
  if (!is_device_memory(storage->data_ptr())) return false;
  give_storage_to(device, *storage);
  follow_storage(impl);
  return true;
}

}  // namespace outboard
