// Comparisons, choices by comparison and by masks, and filling.
#include <ATen/ops/clamp_max_native.h>
#include <ATen/ops/clamp_min_native.h>
#include <ATen/ops/clamp_native.h>
#include <ATen/ops/eq_native.h>
#include <ATen/ops/fill_native.h>
#include <ATen/ops/ge_native.h>
#include <ATen/ops/gt_native.h>
#include <ATen/ops/le_native.h>
#include <ATen/ops/lt_native.h>
#include <ATen/ops/masked_fill_native.h>
#include <ATen/ops/ne_native.h>
#include <ATen/ops/relu_native.h>
#include <ATen/ops/where_native.h>

#include <cstring>

#include "cpu_kernels/typed/structured.h"
#include "tensors/host_view.h"

namespace outboard::cpu_kernels {

#define OUTBOARD_COMPARISON(op) \
  OUTBOARD_PREDICATE(op##_Tensor_out, #op ".Tensor", #op "_.Tensor", #op ".Tensor_out")
OUTBOARD_COMPARISON(eq)
OUTBOARD_COMPARISON(ne)
OUTBOARD_COMPARISON(lt)
OUTBOARD_COMPARISON(le)
OUTBOARD_COMPARISON(gt)
OUTBOARD_COMPARISON(ge)

OUTBOARD_POINTWISE(clamp_out, "clamp", "clamp_", "clamp.out")
OUTBOARD_POINTWISE(clamp_min_out, "clamp_min", "clamp_min_", "clamp_min.out")
OUTBOARD_POINTWISE(clamp_max_out, "clamp_max", "clamp_max_", "clamp_max.out")
OUTBOARD_POINTWISE(clamp_Tensor_out, "clamp.Tensor", "clamp_.Tensor", "clamp.Tensor_out")

// Without access to the stubs of CPU kernels, the router serves the overloads below.
#ifdef OUTBOARD_CPU_STUBS
namespace {

// Overloads with a number: the operator on tensors, with a CPU scalar in the tensor's dtype.
template <class Impl>
struct ScalarPredicate {
  template <OverloadName name>
  static at::Tensor functional(const at::Tensor& self, const at::Scalar& other) {
    const Arguments arguments(self);
    if (arguments.on_one_device() &&
        runs_plainly(TypedOverload<name>::entry(), arguments.device())) {
      const at::Tensor number = scalar_as(other, arguments.dtype());
      if (number.defined()) {
        StreamState& stream = current_stream_state(arguments.device());
        PointwiseFunctional<Impl> op(stream);
        op.meta(self, number);
        synchronize_stream(stream);
        op.impl(self, number, op.output_);
        return std::move(op.output_);
      }
    }
    return TypedOverload<name>::template routed<at::Tensor, const at::Tensor&, const at::Scalar&>(
        self, other);
  }
};

// relu is clamp_min by zero, as on CPU.
template <OverloadName name>
at::Tensor relu(const at::Tensor& self) {
  const Arguments arguments(self);
  if (arguments.on_one_device() && arguments.dtype() != at::kBool &&
      runs_plainly(TypedOverload<name>::entry(), arguments.device())) {
    StreamState& stream = current_stream_state(arguments.device());
    PointwiseFunctional<at::native::structured_clamp_min_out> op(stream);
    if (run_pointwise<OutputDtype::kCommon>(op, stream, arguments, self, at::Scalar(0))) {
      return std::move(op.output_);
    }
  }
  return TypedOverload<name>::template routed<at::Tensor, const at::Tensor&>(self);
}

template <OverloadName name>
at::Tensor& relu_(at::Tensor& self) {
  const Arguments arguments(self);
  if (arguments.on_one_device() && arguments.dtype() != at::kBool &&
      runs_plainly(TypedOverload<name>::entry(), arguments.device())) {
    StreamState& stream = current_stream_state(arguments.device());
    PointwiseInto<at::native::structured_clamp_min_out, true> op(self);
    if (run_pointwise<OutputDtype::kCommon>(op, stream, arguments, self, at::Scalar(0))) {
      op.copy_proxy();
      return self;
    }
  }
  return TypedOverload<name>::template routed<at::Tensor&, at::Tensor&>(self);
}

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
    // The CPU fills one element without its stub.
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

#define OUTBOARD_SCALAR_COMPARISON(op) \
  OUTBOARD_CPU_ROW(                    \
      #op ".Scalar",                   \
      ScalarPredicate<at::native::structured_##op##_Tensor_out>::functional<#op ".Scalar">)
OUTBOARD_SCALAR_COMPARISON(eq)
OUTBOARD_SCALAR_COMPARISON(ne)
OUTBOARD_SCALAR_COMPARISON(lt)
OUTBOARD_SCALAR_COMPARISON(le)
OUTBOARD_SCALAR_COMPARISON(gt)
OUTBOARD_SCALAR_COMPARISON(ge)

OUTBOARD_CPU_ROW("relu", relu<"relu">)
OUTBOARD_CPU_ROW("relu_", relu_<"relu_">)
OUTBOARD_NATIVE_OVERLOAD("masked_fill_.Scalar", at::native::masked_fill__cpu,
                         at::Tensor&(at::Tensor&, const at::Tensor&, const at::Scalar&))
OUTBOARD_CPU_ROW("fill_.Scalar", fill_)
OUTBOARD_CPU_ROW("zero_", zero_)
OUTBOARD_CPU_ROW("where.self", where)
#endif  // OUTBOARD_CPU_STUBS

}  // namespace outboard::cpu_kernels
