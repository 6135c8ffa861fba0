#include "cpu_kernels/call/change_device.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>

#include <typeinfo>

#include "runtime/driver/device.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/memory/shared_memory.h"

namespace outboard {
namespace {

// The keys of a CPU tensor that is nothing but memory, as the constructor of TensorImpl makes them.
c10::DispatchKeySet plain_keys(bool inference) {
  const c10::InferenceMode mode(inference);
  return c10::make_intrusive<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                              caffe2::TypeMeta::Make<float>(),
                                              c10::Device(c10::kCPU))
      ->key_set();
}

bool has_plain_keys(const c10::TensorImpl& tensor) {
  static const c10::DispatchKeySet usual = plain_keys(false);
  static const c10::DispatchKeySet inference = plain_keys(true);
  return tensor.key_set() == usual || tensor.key_set() == inference;
}

bool is_nothing_but_memory(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.use_count() != 1 || tensor.weak_use_count() != 1) return false;
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return has_plain_keys(*impl) && typeid(*impl) == typeid(c10::TensorImpl) &&
         impl->autograd_meta() == nullptr && impl->has_storage() && !impl->is_wrapped_number() &&
         !impl->has_symbolic_sizes_strides() && impl->allow_tensor_metadata_change() &&
         impl->storage().use_count() == 1;
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

bool turn_into_device(const at::Tensor& tensor, c10::DeviceIndex device) {
  if (!is_nothing_but_memory(tensor)) return false;
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  c10::StorageImpl* storage = impl->storage().unsafeGetStorageImpl();
  if (!is_device_memory(storage->data_ptr())) return false;
  give_storage_to(device, *storage);
  impl->_change_backend_component_keys(storage->device());
  impl->set_storage_keep_dtype(c10::Storage(impl->storage()));
  return true;
}

}  // namespace outboard
