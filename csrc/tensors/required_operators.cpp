// The operators that PyTorch requires of every accelerator, except copies: new tensors, views,
// storages.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_resize_output_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/COW.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <array>
#include <utility>

#include "dispatch/registration.h"
#include "runtime/driver/device.h"
#include "runtime/global.h"
#include "runtime/driver/driver_table.h"
#include "runtime/hooks.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/streams/stream.h"
#include "tensors/dense.h"

namespace outboard {
namespace {

// ---- New tensors

c10::DeviceIndex checked_device(std::optional<c10::Device> device) {
  check_fork();
  if (!device || !device->has_index()) {
    const c10::DeviceIndex current = current_device();
    check_device_index(current);
    return current;
  }
  TORCH_CHECK(device->is_privateuseone(), "a tensor on ", c10::DeviceType::PrivateUse1,
              " was asked for with device=", *device);
  check_device_index(device->index());
  return device->index();
}

void check_layout(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(c10::kStrided) == c10::kStrided, "empty on ",
                              c10::DeviceType::PrivateUse1, " makes strided tensors, and layout ",
                              *layout, " was asked for");
  TORCH_CHECK(!pin_memory.value_or(false), "pin_memory=True was asked for on device ",
              c10::DeviceType::PrivateUse1,
              ": only dense CPU tensors can be pinned; make the tensor on the CPU");
}

bool fills_new_memory() {
  const at::Context& context = at::globalContext();
  return C10_UNLIKELY(context.deterministicAlgorithms() &&
                      context.deterministicFillUninitializedMemory());
}

at::Tensor& fill_if_deterministic(at::Tensor& tensor) {
  if (fills_new_memory()) at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout, std::optional<at::Device> device,
                               std::optional<bool> pin_memory,
                               std::optional<at::MemoryFormat> memory_format) {
  check_layout(layout, pin_memory);
  at::Tensor result =
      empty_on(checked_device(device), size, at::dtype_or_default(dtype), memory_format);
  return fill_if_deterministic(result);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory) {
  check_layout(layout, pin_memory);
  at::Tensor result =
      empty_strided_on(checked_device(device), size, stride, at::dtype_or_default(dtype));
  return fill_if_deterministic(result);
}

// ---- Views and shapes

// A function of PyTorch for tensors with storage.
template <auto function>
struct WithStorage;
template <class Return, class Self, class... Args, Return (*function)(Self, Args...)>
struct WithStorage<function> {
  static Return call(Self self, Args... args) {
    check_has_storage(self);
    return function(self, std::forward<Args>(args)...);
  }
};

// The storage grows, if needed, and never shrinks.
void resize_to(c10::TensorImpl* self, at::IntArrayRef size, at::OptionalIntArrayRef stride) {
  if (self->sizes() == size && (!stride || self->strides() == *stride)) return;
  const int64_t itemsize = static_cast<int64_t>(self->itemsize());
  const int64_t offset = self->storage_offset();
  // Memory first: if allocation fails, the tensor is unchanged.
  if (c10::multiply_integers(size) != 0) {
    const size_t bytes = stride
                             ? at::detail::computeStorageNbytes(size, *stride, itemsize, offset)
                             : at::detail::computeStorageNbytesContiguous(size, itemsize, offset);
    const c10::Storage& storage = self->unsafe_storage();
    if (bytes > storage.nbytes()) resize_storage_bytes(storage.unsafeGetStorageImpl(), bytes);
  }
  if (stride) {
    self->set_sizes_and_strides(size, *stride);
  } else {
    self->set_sizes_contiguous(size);
  }
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size,
                          std::optional<at::MemoryFormat> memory_format) {
  check_fork();
  at::detail::check_size_nonnegative(size);
  check_has_storage(self);
  const int64_t old_bytes = static_cast<int64_t>(self.storage().nbytes());
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  resize_to(impl, size, std::nullopt);
  if (memory_format) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "Unsupported memory format",
                *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  if (fills_new_memory()) at::native::fill_resize_deterministic_(self, old_bytes);
  return self;
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  check_has_storage(self);
  check_has_storage(source);
  return at::native::set_tensor_(self, source);
}

at::Tensor& set_storage_offset(at::Tensor& self, at::Storage source, int64_t storage_offset,
                               at::IntArrayRef size, at::IntArrayRef stride) {
  check_has_storage(self);
  at::native::checkSetStorage(self, std::move(source), storage_offset, size, stride);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(storage_offset);
  resize_to(impl, size, stride.data() != nullptr ? at::OptionalIntArrayRef(stride) : std::nullopt);
  return self;
}

at::Tensor& set_nothing(at::Tensor& self) {
  check_has_storage(self);
  const c10::DeviceIndex device = self.device().index();
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0,
                       caching_allocator()->allocate_on(current_stream_state(device), 0),
                       caching_allocator(), /*resizable=*/true);
  return set_storage_offset(self, std::move(storage), 0, {0}, {});
}

// ---- Clones that share memory until one of them is written

// Allocates on a fixed device: PyTorch allocates by the storage's allocator when a shared storage
// is written, without passing the device.
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
  const Locked<std::array<AllocatorOfDevice*, kMaxDevices>> allocators;
  AllocatorOfDevice*& allocator = (*allocators)[device];
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
  // Memory of other owners cannot be shared.
  if (shared == nullptr) return self.clone();
  at::Tensor clone = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(shared)),
                                                              self.key_set(), self.dtype());
  c10::TensorImpl* impl = clone.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(self.sizes(), self.strides(), self.storage_offset());
  return clone;
}

// ---- Shallow copies: whether a tensor may take over the data of one on another device, in
// `parameter.data = other` and so in `module.to(device)`, which preserves the parameters that
// optimizers and other modules hold

// PyTorch has a list of devices whose dense tensors are plain TensorImpls. Those of this backend
// are plain, too, but not in the list.
bool is_plain_dense(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet kDense(c10::DispatchKey::Dense);
  constexpr c10::DispatchKeySet kBackends(
      {c10::BackendComponent::CPUBit, c10::BackendComponent::CUDABit, c10::BackendComponent::HIPBit,
       c10::BackendComponent::XPUBit, c10::BackendComponent::MPSBit, c10::BackendComponent::HPUBit,
       c10::BackendComponent::MTIABit, c10::BackendComponent::PrivateUse1Bit});
  return keys.has_any(kDense) && keys.has_any(kBackends);
}

// False for sparse tensors of two devices. The TensorImpl of COO tensors reads PyTorch's list; that
// of compressed ones answers true, although the members would stay on their device.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  // A tensor without storage has members that a plain one does not have.
  if (impl->has_storage() != from.unsafeGetTensorImpl()->has_storage() &&
      impl->layout() != from.layout()) {
    return false;
  }
  if (impl->is_sparse_compressed() && self.device() != from.device()) return false;
  return impl->has_compatible_shallow_copy_type(from.key_set()) ||
         (is_plain_dense(impl->key_set()) && is_plain_dense(from.key_set()));
}

// ---- Streams

void record_stream(at::Tensor& self, c10::Stream stream) {
  check_fork();
  stream_state(stream);
  check_has_storage(self);
  caching_allocator()->recordStream(self.storage().data_ptr(), stream);
}

// At this key, too: the operator would otherwise reach the `__torch_dispatch__` of subclasses,
// which do not know it.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  library.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

}  // namespace

void register_required_operators(YieldingLibrary& library) {
  set_resize_storage(&resize_storage_bytes);

  library.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  library.impl("empty_strided", TORCH_FN(empty_strided));
  library.impl("as_strided", TORCH_FN(WithStorage<&at::native::as_strided_tensorimpl>::call));
  library.impl("view", TORCH_FN(WithStorage<&at::native::view>::call));
  library.impl("_reshape_alias", TORCH_FN(WithStorage<&at::native::_reshape_alias>::call));
  // Other operators that make views, for which PyTorch has only CPU kernels.
  library.impl("alias", TORCH_FN(WithStorage<&at::native::alias>::call));
  library.impl("unfold", TORCH_FN(WithStorage<&at::native::unfold>::call));
  library.impl("view_as_complex", TORCH_FN(WithStorage<&at::native::view_as_complex>::call));
  library.impl("view_as_real", TORCH_FN(WithStorage<&at::native::view_as_real>::call));

  library.impl("resize_", TORCH_FN(resize_));
  library.impl("_resize_output_", TORCH_FN(at::native::_resize_output_));
  constexpr auto kSetStorage =
      static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(&at::native::set_);
  library.impl("set_.source_Storage", TORCH_FN(WithStorage<kSetStorage>::call));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_offset));
  library.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  library.impl("set_", TORCH_FN(set_nothing));
  // `copy_` in a graph without mutation.
  library.impl("copy", TORCH_FN(WithStorage<&at::native::copy>::call));
  library.impl("record_stream", TORCH_FN(record_stream));
  library.impl("_lazy_clone", TORCH_FN(lazy_clone));
  library.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

}  // namespace outboard
