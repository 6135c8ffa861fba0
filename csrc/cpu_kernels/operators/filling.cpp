// Filling and masked choice.
#ifdef OUTBOARD_CPU_STUBS

#include <ATen/ops/fill_native.h>
#include <ATen/ops/masked_fill_native.h>
#include <ATen/ops/where_native.h>

#include <cstring>

#include "cpu_kernels/typed/native.h"
#include "cpu_kernels/call/cpu_call.h"

namespace outboard::cpu_kernels {

namespace {

// Below this many bytes one thread clears memory faster than several.
constexpr size_t kClearedAtOnce = size_t{128} << 10;

at::Tensor& zero_(at::Tensor& self) {
  const Arguments arguments(self);
  Operator& entry = TypedOverload<"zero_">::entry();
  if (!arguments.on_one_device() || !runs_plainly(entry, arguments.device())) {
    return TypedOverload<"zero_">::routed<at::Tensor&, at::Tensor&>(self);
  }
  synchronize_stream(current_stream_state(arguments.device()));
  if (self.nbytes() <= kClearedAtOnce && self.is_non_overlapping_and_dense()) {
    if (self.numel() > 0) std::memset(self.mutable_data_ptr(), 0, self.nbytes());
    return self;
  }
  return at::native::fill_(self, at::Scalar(0));
}

at::Tensor& fill_(at::Tensor& self, const at::Scalar& value) {
  const Arguments arguments(self);
  Operator& entry = TypedOverload<"fill_.Scalar">::entry();
  if (!arguments.on_one_device() || !runs_plainly(entry, arguments.device())) {
    return TypedOverload<"fill_.Scalar">::routed<at::Tensor&, at::Tensor&, const at::Scalar&>(
        self, value);
  }
  synchronize_stream(current_stream_state(arguments.device()));
  if (self.numel() == 1) {
    // The CPU has a way of its own for one element.
    at::Tensor host = host_tensor(self);
    at::native::fill_(host, value);
    return self;
  }
  return at::native::fill_(self, value);
}

at::Tensor where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  const Arguments arguments(condition, self, other);
  Operator& entry = TypedOverload<"where.self">::entry();
  if (arguments.on_one_device() && condition.scalar_type() == at::kBool &&
      self.scalar_type() == other.scalar_type() && runs_plainly(entry, arguments.device())) {
    synchronize_stream(current_stream_state(arguments.device()));
    const DeviceScope scope(arguments.device());
    const HostPlacementScope host_placement;
    return at::native::where(condition, self, other);
  }
  return TypedOverload<"where.self">::routed<at::Tensor, const at::Tensor&, const at::Tensor&,
                                             const at::Tensor&>(condition, self, other);
}

}  // namespace

OUTBOARD_NATIVE_OVERLOAD("masked_fill_.Scalar", at::native::masked_fill__cpu,
                         at::Tensor&(at::Tensor&, const at::Tensor&, const at::Scalar&))
OUTBOARD_CPU_ROW("fill_.Scalar", fill_)
OUTBOARD_CPU_ROW("zero_", zero_)
OUTBOARD_CPU_ROW("where.self", where)

}  // namespace outboard::cpu_kernels

#endif  // OUTBOARD_CPU_STUBS
