#include "aten/fill.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/fill_native.h>

#include "aten/host_call.h"
#include "aten/router.h"
#include "runtime/device.h"
#include "runtime/driver_table.h"
#include "runtime/fork.h"
#include "runtime/stream.h"

namespace outboard {

bool fill_dense(const at::Tensor& tensor, const at::Scalar& value) {
  check_fork();
  const c10::DeviceIndex device = tensor.device().index();
  if (shares_host_memory(device) || !tensor.is_non_overlapping_and_dense()) return false;
  at::Tensor pattern = at::detail::empty_cpu({}, tensor.scalar_type());
  at::native::fill_(pattern, value);
  if (tensor.numel() == 0) return true;
  StreamState& stream = current_stream_state(device);
  OB_CALL(fill, stream.queue, reinterpret_cast<uint64_t>(tensor.mutable_data_ptr()),
          pattern.const_data_ptr(), static_cast<uint32_t>(tensor.itemsize()),
          static_cast<uint64_t>(tensor.numel()) * tensor.itemsize());
  stream.mark_submitted();
  return true;
}

namespace {

at::Tensor& fill_scalar(at::Tensor& self, const at::Scalar& value) {
  if (!fill_dense(self, value)) {
    HostCall call(self.device().index());
    at::Tensor host = call.map(self, Access::kWrite);
    at::native::fill_(host, value);
    call.finish();
  }
  return self;
}

at::Tensor& zero_(at::Tensor& self) { return fill_scalar(self, 0); }

}  // namespace

OUTBOARD_ROUTED("fill_.Scalar", fill_scalar)
OUTBOARD_ROUTED("zero_", zero_)

}  // namespace outboard
