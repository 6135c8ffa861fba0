#include "transfer/copy.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/fill_native.h>
#include <c10/util/DimVector.h>

#include <utility>

#include "dispatch/call_routed.h"
#include "dispatch/placement.h"
#include "dispatch/registration.h"
#include "dispatch/router.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/process.h"
#include "runtime/recording/recorded_call.h"
#include "runtime/streams/stream.h"
#include "tensors/dense.h"

namespace outboard {
namespace {

// Enqueues a driver fill of `tensor` on the device's current stream. Returns false, with nothing
// done, where a CPU kernel fills: the device shares memory with the host, or the tensor has gaps.
bool fill_dense(const at::Tensor& tensor, const at::Scalar& value) {
  check_fork();
  const c10::DeviceIndex device = tensor.device().index();
  if (shares_host_memory(device) || !tensor.is_non_overlapping_and_dense()) return false;
  at::Tensor pattern = at::detail::empty_cpu({}, tensor.scalar_type());
  at::native::fill_(pattern, value);
  if (tensor.numel() == 0) return true;
  StreamState& stream = current_stream_state(device);
  const uint64_t bytes = static_cast<uint64_t>(tensor.numel()) * tensor.itemsize();
  RecordedWork record(stream, ActivityKind::kFill, "fill", "Memset", bytes);
  OB_CALL(fill, stream.queue, reinterpret_cast<uint64_t>(tensor.mutable_data_ptr()),
          pattern.const_data_ptr(), static_cast<uint32_t>(tensor.itemsize()), bytes);
  stream.mark_submitted();
  record.enqueued();
  return true;
}

// A view without the repetitions of an expanded tensor.
at::Tensor without_repetitions(const at::Tensor& tensor) {
  c10::DimVector sizes(tensor.sizes());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (tensor.strides()[i] == 0 && sizes[i] > 1) sizes[i] = 1;
  }
  return at::native::as_strided_tensorimpl(tensor, sizes, tensor.strides(),
                                           tensor.storage_offset());
}

at::Tensor& fill_scalar(at::Tensor& self, const at::Scalar& value) {
  check_has_storage(self);
  if (fill_dense(self, value)) return self;
  const at::Tensor target = without_repetitions(self);
  if (fill_dense(target, value)) return self;
  const at::Tensor filled = empty_on(self.device().index(), target.sizes(), self.scalar_type());
  fill_dense(filled, value);
  copy_into(target, filled);
  return self;
}

at::Tensor& zero_(at::Tensor& self) { return fill_scalar(self, 0); }

void add(const char* name, c10::KernelFunction function) {
  RoutedKernel kernel;
  kernel.kernel = std::move(function);
  kernel.placement = Placement::kDevice;
  kernel.separate_memory_only = true;
  add_kernel_to_entry(router_entry(name), std::move(kernel));
}

}  // namespace

void fill_on_device(const at::Tensor& tensor, const at::Scalar& value) {
  static Operator& entry = router_entry("aten::fill_.Scalar");
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::fill_", "Scalar");
  const DevicePlacementScope device_placement;
  at::Tensor self = tensor;
  CallRouted<at::Tensor&(at::Tensor&, const at::Scalar&)>::call(entry, op, self, value);
}

void register_fills() {
  add("aten::fill_.Scalar", c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(fill_scalar)));
  add("aten::zero_", c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(zero_)));
}

}  // namespace outboard
