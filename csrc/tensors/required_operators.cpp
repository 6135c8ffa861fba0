#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_resize_output_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include <c10/util/accumulate.h>

#include <utility>

#include "transfer/copy.h"
#include "tensors/host_view.h"
#include "tensors/empty.h"
#include "transfer/fill.h"
#include "dispatch/registration.h"
#include "tensors/storage_check.h"
#include "tensors/storage_resize.h"
#include "transfer/transfer.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/process.h"
#include "runtime/hooks.h"
#include "runtime/streams/stream.h"

namespace outboard {

namespace {

// ---- New tensors ---------------------------------------------------------------------------

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

at::Tensor& fill_if_deterministic(at::Tensor& tensor) {
  const at::Context& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() &&
                   context.deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(tensor);
  }
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

// ---- Views and shapes ----------------------------------------------------------------------

// A function of PyTorch's, for tensors with storage.
template <auto function>
struct WithStorage;
template <class Return, class Self, class... Args, Return (*function)(Self, Args...)>
struct WithStorage<function> {
  static Return call(Self self, Args... args) {
    check_has_storage(self);
    return function(self, std::forward<Args>(args)...);
  }
};

// Grows the storage so that `bytes` fit; never shrinks it.
void grow_storage(c10::TensorImpl* self, int64_t bytes) {
  const c10::Storage& storage = self->unsafe_storage();
  if (static_cast<size_t>(bytes) > storage.nbytes()) {
    resize_storage_bytes(storage.unsafeGetStorageImpl(), bytes);
  }
}

void resize_to(c10::TensorImpl* self, at::IntArrayRef size, at::OptionalIntArrayRef stride) {
  if (self->sizes() == size && (!stride || self->strides() == *stride)) return;
  const int64_t itemsize = static_cast<int64_t>(self->itemsize());
  const int64_t offset = self->storage_offset();
  // Memory comes first: if there is none, the tensor stays as it was.
  if (c10::multiply_integers(size) != 0) {
    grow_storage(self, stride ? at::detail::computeStorageNbytes(size, *stride, itemsize, offset)
                              : at::detail::computeStorageNbytesContiguous(size, itemsize, offset));
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
  const at::Context& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() &&
                   context.deterministicFillUninitializedMemory())) {
    at::native::fill_resize_deterministic_(self, old_bytes);
  }
  return self;
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  check_has_storage(self);
  check_has_storage(source);
  return at::native::set_tensor_(self, source);
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  check_has_storage(self);
  return at::native::set_(self, std::move(source));
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

// What `copy_` becomes in a graph without mutation.
at::Tensor copy(const at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  check_has_storage(self);
  return at::native::copy(self, source, non_blocking);
}

// ---- Values --------------------------------------------------------------------------------

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  copy_into(dst, self, non_blocking);
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (!dst.sizes().equals(self.sizes())) dst.resize_(self.sizes());
  copy_into(dst, self);
  return dst;
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  check_fork();
  check_has_storage(self);
  const c10::DeviceIndex device = self.device().index();
  StreamState& stream = current_stream_state(device);
  if (shares_host_memory(device)) {
    synchronize_stream(stream);
    raise_deferred();
    return at::native::_local_scalar_dense_cpu(host_tensor(self, Access::kRead));
  }
  at::Tensor value = at::detail::empty_cpu({}, self.scalar_type());
  HostMemoryInUse in_use(stream, value);
  enqueue_copy(stream, Place::on_host(value.data_ptr()),
               {device, reinterpret_cast<uint64_t>(self.const_data_ptr())},
               static_cast<int64_t>(self.itemsize()));
  in_use.wait();
  return at::native::_local_scalar_dense_cpu(value);
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  check_fork();
  stream_state(stream);
  check_has_storage(self);
  caching_allocator()->recordStream(self.storage().data_ptr(), stream);
}

}  // namespace

void register_required_operators(YieldingLibrary& library) {
  set_resize_storage(&resize_storage_bytes);
  register_fills();

  library.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  library.impl("empty_strided", TORCH_FN(empty_strided));
  library.impl("as_strided", TORCH_FN(WithStorage<&at::native::as_strided_tensorimpl>::call));
  library.impl("view", TORCH_FN(WithStorage<&at::native::view>::call));
  library.impl("_reshape_alias", TORCH_FN(WithStorage<&at::native::_reshape_alias>::call));
  // The other operators that only make views, and for which PyTorch brings CPU kernels alone.
  library.impl("alias", TORCH_FN(WithStorage<&at::native::alias>::call));
  library.impl("unfold", TORCH_FN(WithStorage<&at::native::unfold>::call));
  library.impl("view_as_complex", TORCH_FN(WithStorage<&at::native::view_as_complex>::call));
  library.impl("view_as_real", TORCH_FN(WithStorage<&at::native::view_as_real>::call));

  library.impl("resize_", TORCH_FN(resize_));
  library.impl("_resize_output_", TORCH_FN(at::native::_resize_output_));
  library.impl("set_.source_Storage", TORCH_FN(set_storage));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_offset));
  library.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  library.impl("set_", TORCH_FN(set_nothing));
  library.impl("copy", TORCH_FN(copy));
  library.impl("_copy_from", TORCH_FN(copy_from));
  library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  library.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  library.impl("record_stream", TORCH_FN(record_stream));
}

}  // namespace outboard
