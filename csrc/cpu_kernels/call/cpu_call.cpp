#include "cpu_kernels/call/cpu_call.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <typeinfo>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/streams/wait.h"
#include "tensors/dense.h"
#include "transfer/copy.h"

namespace outboard {
namespace {

// The keys of a CPU tensor that is only memory, as the constructor of TensorImpl sets them.
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

bool is_only_memory(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.use_count() != 1 || tensor.weak_use_count() != 1) return false;
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return has_plain_keys(*impl) && typeid(*impl) == typeid(c10::TensorImpl) &&
         impl->autograd_meta() == nullptr && impl->has_storage() && !impl->is_wrapped_number() &&
         !impl->has_symbolic_sizes_strides() && impl->allow_tensor_metadata_change() &&
         impl->storage().use_count() == 1;
}

// Whether memory that a CPU storage owns is the device's.
bool is_device_memory(const c10::DataPtr& pointer) noexcept {
  return is_cpu_kernel_memory(pointer) || caching_allocator()->owns(pointer);
}

// The same memory and owner, as memory of `device`.
c10::DataPtr renamed(c10::DataPtr pointer, c10::Device device) {
  const c10::DeleterFnPtr deleter = pointer.get_deleter();
  void* data = pointer.get();
  return {data, pointer.release_context(), deleter, device};
}

// Converts a CPU storage over device memory, without other references, to a storage of `device`.
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

}  // namespace

bool turn_into_device(const at::Tensor& tensor, c10::DeviceIndex device) {
  if (!is_only_memory(tensor)) return false;
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  c10::StorageImpl* storage = impl->storage().unsafeGetStorageImpl();
  if (!is_device_memory(storage->data_ptr())) return false;
  give_storage_to(device, *storage);
  impl->_change_backend_component_keys(storage->device());
  impl->set_storage_keep_dtype(c10::Storage(impl->storage()));
  return true;
}

namespace {

constexpr c10::DispatchKeySet kDeviceKeys(c10::DispatchKey::PrivateUse1);

// The bytes [begin, end) of a tensor in its storage.
std::pair<size_t, size_t> byte_span(const at::Tensor& tensor) {
  const size_t begin = static_cast<size_t>(tensor.storage_offset()) * tensor.itemsize();
  return {begin, begin + static_cast<size_t>(span_bytes(tensor))};
}

ob_address address_of(const c10::Storage& storage) {
  return reinterpret_cast<ob_address>(storage.data());
}

}  // namespace

CpuCall::CpuCall(c10::DeviceIndex device)
    : device_(device),
      placement_(shares_host_memory(device) ? Placement::kHost : Placement::kCopied),
      stream_(current_stream_state(device)),
      memory_(stream_) {
  synchronize_stream(stream_);
}

CpuCall::~CpuCall() {
  if (copies_pending_) {
    // An exception left before finish(): host memory must outlive the copies that use it.
    const ob_status status = wait_for_queue_once(driver(), stream_.queue);
    defer_status(status, "queue_synchronize");
    if (status != OB_OK) new c10::SmallVector<StorageView, 4>(storages_);
  }
  // The call may own the last references to its arguments' memory.
  for (TensorView& view : tensors_) view.host.reset();
  for (StorageView& view : storages_) view.host = c10::Storage();
  sparse_tensors_.clear();
  views_.clear();
}

at::Tensor CpuCall::map(const at::Tensor& tensor, Access access) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
  TORCH_CHECK(tensor.device().index() == device_,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              device_of(device_), " and ", tensor.device(), "! Move one with .to()");
  if (C10_UNLIKELY(tensor.layout() != at::kStrided)) {
    if (tensor.layout() == at::kMkldnn) check_has_storage(tensor);
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() != at::kMkldnn && tensor.layout() != at::kJagged,
                                "a tensor of layout ", tensor.layout(), " cannot be used on ",
                                tensor.device(), "; use a dense or a sparse one");
    return map_sparse(tensor, access);
  }
  if (C10_UNLIKELY(tensor.is_nested())) return map_nested(tensor, access);
  check_has_storage(tensor);
  if (TensorView* view = by_device_tensor_.find(tensors_, tensor.unsafeGetTensorImpl())) {
    if (access == Access::kWrite && view->access == Access::kRead) {
      view->access = access;
      will_write(*find_storage(tensor.storage()));
    }
    return view->host;
  }
  if (C10_UNLIKELY(tensor.is_quantized())) return map_quantized(tensor, access);
  if (placement_ == Placement::kHost && find_storage(tensor.storage()) == nullptr) {
    const HostView& view = views_.emplace_back(tensor, access);
    const c10::Storage& host = view.tensor().storage();
    storages_.push_back({tensor.storage(), host, host.data(), host.nbytes()});
    tensors_.push_back({tensor, view.tensor(), access});
    return view.tensor();
  }
  StorageView& storage = storage_view(tensor.storage(), access);
  at::Tensor host = tensor_over(storage.host, kCpuKeys, tensor);
  if (placement_ == Placement::kCopied) {
    const auto [begin, end] = byte_span(tensor);
    copy_to_host(storage, begin, end);
  }
  tensors_.push_back({tensor, host, access});
  return host;
}

void CpuCall::written(const at::Tensor& device, const at::Tensor& host) {
  if (by_device_tensor_.find(tensors_, device.unsafeGetTensorImpl()) != nullptr) return;
  const c10::StorageImpl& storage = *device.storage().unsafeGetStorageImpl();
  const bool same_memory = device_storage_under(host.storage()) == &storage &&
                           host.storage().nbytes() == storage.nbytes();
  if (same_memory && host.sizes() == device.sizes() && host.strides() == device.strides() &&
      host.storage_offset() == device.storage_offset()) {
    return;
  }
  storages_.push_back({device.storage(), host.storage(), storage.data(), storage.nbytes()});
  tensors_.push_back({device, host, Access::kWrite});
}

CpuCall::StorageView* CpuCall::find_storage(const c10::Storage& storage) {
  return by_device_storage_.find(storages_, storage.unsafeGetStorageImpl());
}

// Materializes a copy-on-write storage before the first write.
void CpuCall::will_write(StorageView& view) {
  if (placement_ != Placement::kHost || view.host.data() != view.mapped_data) return;
  void* memory = view.device.mutable_data();
  if (memory == view.mapped_data) return;
  view.host.set_data_ptr_noswap(pointer_into(view.device, c10::Device(c10::kCPU)));
  view.mapped_data = memory;
}

CpuCall::StorageView& CpuCall::storage_view(const c10::Storage& storage, Access access) {
  if (StorageView* known = find_storage(storage)) {
    if (access == Access::kWrite) will_write(*known);
    return *known;
  }
  c10::Storage host;
  if (placement_ == Placement::kHost) {
    host = host_storage(storage, access);
  } else {
    // The system maps pages of a large allocation at the first access, so unused ones cost nothing.
    host = c10::Storage(
        c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
                                              c10::GetCPUAllocator()->allocate(storage.nbytes()),
                                              c10::GetCPUAllocator(), storage.resizable()));
  }
  const void* data = host.data();
  storages_.push_back({storage, std::move(host), data, storage.nbytes()});
  return storages_.back();
}

void CpuCall::copy_to_host(StorageView& view, size_t begin, size_t end) {
  end = std::min(end, view.mapped_bytes);
  if (begin >= end) return;
  auto copy = [&](size_t from, size_t to) {
    if (from >= to) return;
    enqueue_copy(stream_, Location::on_host(static_cast<char*>(view.host.mutable_data()) + from),
                 {device_, address_of(view.device) + from}, static_cast<int64_t>(to - from));
    synchronize_stream(stream_);
    copied_bytes_ += to - from;
  };
  if (view.read_begin == view.read_end) {
    copy(begin, end);
    view.read_begin = begin;
    view.read_end = end;
  } else {
    // The copied part stays one interval: bytes between two views are included.
    copy(begin, view.read_begin);
    copy(view.read_end, end);
    view.read_begin = std::min(view.read_begin, begin);
    view.read_end = std::max(view.read_end, end);
  }
}

c10::DataPtr CpuCall::copy_to_new_memory(const c10::Storage& host) {
  const size_t bytes = host.nbytes();
  c10::DataPtr pointer = caching_allocator()->allocate_on(stream_, bytes);
  if (bytes == 0) return pointer;
  if (placement_ == Placement::kHost) {
    // Only now is nothing done to this memory any more.
    synchronize_stream(stream_);
    std::memcpy(pointer.get(), host.data(), bytes);
    return pointer;
  }
  enqueue_copy(stream_, {device_, reinterpret_cast<ob_address>(pointer.get())},
               Location::on_host(host.data()), static_cast<int64_t>(bytes));
  copies_pending_ = true;
  copied_bytes_ += bytes;
  return pointer;
}

// Host memory as device memory: shared with its CPU owner where the device accepts it, copied
// elsewhere.
c10::DataPtr CpuCall::adopt(const c10::Storage& host) {
  const c10::Device device = device_of(device_);
  if (host.nbytes() == 0 || host.data() == nullptr) return {nullptr, device};
  if (placement_ == Placement::kHost) {
    if (is_device_memory(host.data_ptr())) return pointer_into(host, device);
    if (adopts_host_memory(device_)) return adopt_memory(host, stream_);
  }
  return copy_to_new_memory(host);
}

c10::Storage CpuCall::device_storage(const at::Tensor& host) {
  const c10::Storage& storage = host.storage();
  if (c10::StorageImpl* device = device_storage_under(storage)) {
    return c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(device));
  }
  if (host.use_count() == 1 && storage.use_count() == 1 && is_device_memory(storage.data_ptr())) {
    // This storage has no other owner: it becomes the device's, memory and all.
    give_storage_to(device_, *storage.unsafeGetStorageImpl());
    return storage;
  }
  c10::Storage device(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                            storage.nbytes(), adopt(storage),
                                                            caching_allocator(), true));
  // Further results over this memory share the storage.
  storages_.push_back({device, storage, storage.data(), storage.nbytes()});
  return device;
}

at::Tensor CpuCall::result(at::Tensor host) {
  if (!host.defined() || !host.is_cpu()) return host;
  if (placement_ == Placement::kHost && turn_into_device(host, device_)) return host;
  if (const TensorView* view = by_host_tensor_.find(tensors_, host.unsafeGetTensorImpl())) {
    return view->device;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(host.layout() != at::kMkldnn, "the result is a tensor of layout ",
                              host.layout(),
                              ", and only dense, sparse, nested and quantized tensors exist on ",
                              device_of(device_), "; call it with CPU tensors");
  if (C10_UNLIKELY(host.layout() != at::kStrided)) return sparse_result(host);
  if (C10_UNLIKELY(host.is_nested() || host.is_quantized())) return other_result(host);
  const c10::StorageImpl* impl = host.storage().unsafeGetStorageImpl();
  if (const StorageView* view = by_host_storage_.find(storages_, impl)) {
    return tensor_over(view->device, kDeviceKeys, host);
  }
  c10::Storage storage = device_storage(host);
  return tensor_over(std::move(storage), kDeviceKeys, host);
}

void CpuCall::return_resized_storage(StorageView& view) {
  const size_t bytes = view.host.nbytes();
  c10::StorageImpl* device = view.device.unsafeGetStorageImpl();
  c10::DataPtr pointer;
  if (placement_ == Placement::kHost && view.host.data() == view.mapped_data) {
    // Smaller, in the memory of the device's storage.
    device->set_nbytes(bytes);
    return;
  }
  if (placement_ == Placement::kHost && is_cpu_kernel_memory(view.host.data_ptr())) {
    pointer = renamed(view.host.set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::kCPU))),
                      device_of(device_));
    // CPU tensors over this storage are no longer used, and must not dangle.
    view.host.set_nbytes(0);
  } else {
    pointer = adopt(view.host);
  }
  device->set_data_ptr_noswap(std::move(pointer));
  device->set_nbytes(bytes);
}

// Span by span: bytes between two written views may not have been read.
void CpuCall::copy_back() {
  for (TensorView& view : tensors_) {
    if (view.access != Access::kWrite) continue;
    const StorageView& storage = *find_storage(view.device.storage());
    auto [begin, end] = byte_span(view.host);
    end = std::min(end, storage.mapped_bytes);  // several elements may share a byte
    if (storage.resized || begin >= end) continue;
    // Materializes a copy-on-write storage.
    const auto device = reinterpret_cast<ob_address>(storage.device.mutable_data());
    enqueue_copy(stream_, {device_, device + begin},
                 Location::on_host(static_cast<const char*>(storage.host.data()) + begin),
                 static_cast<int64_t>(end - begin));
    copies_pending_ = true;
    copied_bytes_ += end - begin;
  }
}

void CpuCall::finish() {
  if (C10_UNLIKELY(!sparse_tensors_.empty())) finish_sparse();
  for (TensorView& view : tensors_) {
    if (view.access != Access::kWrite) continue;
    c10::TensorImpl* to = view.device.unsafeGetTensorImpl();
    if (view.host.sizes() != view.device.sizes() || view.host.strides() != view.device.strides() ||
        view.host.storage_offset() != view.device.storage_offset()) {
      to->set_sizes_and_strides(view.host.sizes(), view.host.strides(), view.host.storage_offset());
    }
    if (view.host.is_conj() != view.device.is_conj()) to->_set_conj(view.host.is_conj());
    if (view.host.is_neg() != view.device.is_neg()) to->_set_neg(view.host.is_neg());
  }
  for (StorageView& view : storages_) {
    view.resized = view.host.data() != view.mapped_data || view.host.nbytes() != view.mapped_bytes;
    if (view.resized) return_resized_storage(view);
  }
  if (placement_ == Placement::kCopied) copy_back();
  if (copies_pending_) {
    synchronize_stream(stream_);
    copies_pending_ = false;
  }
}

}  // namespace outboard
