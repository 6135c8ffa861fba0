#include "tensors/empty.h"

#include <ATen/EmptyTensor.h>

#include <optional>

#include "autograd/backward_thread.h"
#include "dispatch/placement.h"
#include "runtime/memory/caching/caching_allocator.h"

namespace outboard {

namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// The allocator allocates on the current device.
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

}  // namespace outboard
