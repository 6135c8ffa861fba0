#include "tensors/dense.h"

#include <algorithm>
#include <cstring>

#include "autograd/autograd.h"
#include "dispatch/placement.h"
#include "runtime/driver/driver_table.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/recording/recording.h"

namespace outboard {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// Makes `device` current, where the allocator allocates.
class AllocationScope {
 public:
  explicit AllocationScope(c10::DeviceIndex device) {
    ensure_backward_thread(device);
    if (device != current_device()) scope_.emplace(device);
  }

  at::Tensor ready(at::Tensor tensor) const {
    wait_for_new_memory(current_stream_state(tensor.device().index()));
    return tensor;
  }

 private:
  std::optional<DeviceScope> scope_;
};

}  // namespace

at::Tensor empty_on(c10::DeviceIndex device, at::IntArrayRef sizes, at::ScalarType dtype,
                    std::optional<at::MemoryFormat> format) {
  AllocationScope scope(device);
  return scope.ready(at::detail::empty_generic(sizes, caching_allocator(), kKeys, dtype, format));
}

at::Tensor empty_strided_on(c10::DeviceIndex device, at::IntArrayRef sizes, at::IntArrayRef strides,
                            at::ScalarType dtype) {
  AllocationScope scope(device);
  return scope.ready(
      at::detail::empty_strided_generic(sizes, strides, caching_allocator(), kKeys, dtype));
}

void throw_without_storage(const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "a tensor without storage (", tensor.scalar_type(), " of shape ", tensor.sizes(),
      " on ", tensor.device(),
      ") reached an operator that needs its memory; convert it with .to_dense() or .cpu(), if its "
      "vendor has kernels for those, or register a kernel for the operator");
}

void copy_within_device(StreamState& stream, void* destination, const void* source, size_t bytes) {
  RecordedCopy record(stream, stream.device, stream.device, bytes);
  OB_CALL(copy_device_to_device, stream.queue, reinterpret_cast<ob_address>(destination),
          reinterpret_cast<ob_address>(source), bytes);
  stream.mark_submitted();
  record.enqueued();
}

void resize_storage_bytes(c10::StorageImpl* storage, size_t bytes) {
  check_fork();
  TORCH_CHECK(storage->resizable(),
              "Trying to resize storage that is not resizable; it shares memory that something "
              "else owns, so make a copy with clone() first");
  const c10::DeviceIndex device = storage->device().index();
  StreamState& stream = current_stream_state(device);
  c10::DataPtr memory = caching_allocator()->allocate_on(stream, bytes);
  wait_for_new_memory(stream);
  const size_t copied = std::min(bytes, storage->nbytes());
  if (copied > 0 && shares_host_memory(device)) {
    synchronize_stream(stream);
    std::memcpy(memory.mutable_get(), storage->data(), copied);
  } else if (copied > 0) {
    copy_within_device(stream, memory.get(), storage->data(), copied);
    caching_allocator()->recordStream(storage->data_ptr(), stream.stream());
  }
  storage->set_data_ptr_noswap(std::move(memory));
  storage->set_nbytes(bytes);
}

}  // namespace outboard
