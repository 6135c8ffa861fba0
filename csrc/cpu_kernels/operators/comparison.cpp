// Comparisons, and choices by comparison.
#include "cpu_kernels/typed/structured.h"

#include <ATen/ops/clamp_max_native.h>
#include <ATen/ops/clamp_min_native.h>
#include <ATen/ops/clamp_native.h>
#include <ATen/ops/eq_native.h>
#include <ATen/ops/ge_native.h>
#include <ATen/ops/gt_native.h>
#include <ATen/ops/le_native.h>
#include <ATen/ops/lt_native.h>
#include <ATen/ops/ne_native.h>
#include <ATen/ops/relu_native.h>

namespace outboard::cpu_kernels {

namespace {

// The overloads with a number: the operator on tensors, with the number as a CPU scalar in the
// tensor's dtype.
template <class Impl>
struct ScalarPredicate {
#ifdef OUTBOARD_CPU_STUBS
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
#else
  template <OverloadName name>
  static at::Tensor functional(const at::Tensor& self, const at::Scalar& other) {
    return TypedOverload<name>::template routed<at::Tensor, const at::Tensor&, const at::Scalar&>(
        self, other);
  }
#endif
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

}  // namespace

#define OUTBOARD_COMPARISON(op)                                                         \
  OUTBOARD_PREDICATE(op##_Tensor_out, #op ".Tensor", #op "_.Tensor", #op ".Tensor_out") \
  OUTBOARD_CPU_ROW(                                                                     \
      #op ".Scalar",                                                                    \
      ScalarPredicate<at::native::structured_##op##_Tensor_out>::functional<#op ".Scalar">)

OUTBOARD_COMPARISON(eq)
OUTBOARD_COMPARISON(ne)
OUTBOARD_COMPARISON(lt)
OUTBOARD_COMPARISON(le)
OUTBOARD_COMPARISON(gt)
OUTBOARD_COMPARISON(ge)

#ifdef OUTBOARD_CPU_STUBS
OUTBOARD_CPU_ROW("relu", relu<"relu">)
OUTBOARD_CPU_ROW("relu_", relu_<"relu_">)
#endif

OUTBOARD_POINTWISE(clamp_out, "clamp", "clamp_", "clamp.out")
OUTBOARD_POINTWISE(clamp_min_out, "clamp_min", "clamp_min_", "clamp_min.out")
OUTBOARD_POINTWISE(clamp_max_out, "clamp_max", "clamp_max_", "clamp_max.out")
OUTBOARD_POINTWISE(clamp_Tensor_out, "clamp.Tensor", "clamp_.Tensor", "clamp.Tensor_out")

}  // namespace outboard::cpu_kernels
