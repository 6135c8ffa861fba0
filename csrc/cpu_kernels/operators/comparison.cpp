// Comparisons, choices by comparison and by masks, and filling.
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
template <class Kernels, OverloadName name>
at::Tensor compare_with_number(const at::Tensor& self, const at::Scalar& other) {
  if (runs_plainly(TypedOverload<name>::entry(), self.device().index())) {
    const at::Tensor number = scalar_as(other, self.scalar_type());
    if (number.defined()) {
      if (auto result = Kernels::template new_results<name>(self, number)) {
        return std::move(*result);
      }
    }
  }
  return TypedOverload<name>::template routed<at::Tensor>(self, other);
}

// relu is clamp_min by zero, as on CPU.
using ClampMin = PointwiseKernels<at::native::structured_clamp_min_out>;

at::Tensor relu(const at::Tensor& self) {
  if (self.scalar_type() != at::kBool) {
    if (auto result = ClampMin::new_results<"relu">(self, at::Scalar(0))) {
      return std::move(*result);
    }
  }
  return TypedOverload<"relu">::routed<at::Tensor>(self);
}

at::Tensor& relu_(at::Tensor& self) {
  if (self.scalar_type() != at::kBool && ClampMin::write_in_place<"relu_">(self, at::Scalar(0))) {
    return self;
  }
  return TypedOverload<"relu_">::routed<at::Tensor&>(self);
}

// Below this many bytes one thread clears memory faster than several.
constexpr size_t kClearedAtOnce = size_t{128} << 10;

at::Tensor& zero_(at::Tensor& self) {
  if (self.nbytes() <= kClearedAtOnce && self.is_non_overlapping_and_dense()) {
    if (self.numel() > 0) std::memset(self.mutable_data_ptr(), 0, self.nbytes());
    return self;
  }
  return at::native::fill_(self, at::Scalar(0));
}

at::Tensor& fill_(at::Tensor& self, const at::Scalar& value) {
  if (self.numel() == 1) {
    // The CPU fills one element without its stub.
    at::Tensor host = host_tensor(self);
    at::native::fill_(host, value);
    return self;
  }
  return at::native::fill_(self, value);
}

using WhereSignature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&);

at::Tensor where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  if (condition.scalar_type() == at::kBool && self.scalar_type() == other.scalar_type()) {
    return NativeKernel<WhereSignature>::run<&at::native::where, "where.self">(condition, self,
                                                                               other);
  }
  return TypedOverload<"where.self">::routed<at::Tensor>(condition, self, other);
}

}  // namespace

#define OUTBOARD_SCALAR_COMPARISON(op)                                                            \
  OUTBOARD_DIRECT(#op ".Scalar",                                                                  \
                  compare_with_number<PredicateKernels<at::native::structured_##op##_Tensor_out>, \
                                      #op ".Scalar">)
OUTBOARD_SCALAR_COMPARISON(eq)
OUTBOARD_SCALAR_COMPARISON(ne)
OUTBOARD_SCALAR_COMPARISON(lt)
OUTBOARD_SCALAR_COMPARISON(le)
OUTBOARD_SCALAR_COMPARISON(gt)
OUTBOARD_SCALAR_COMPARISON(ge)

OUTBOARD_DIRECT("relu", relu)
OUTBOARD_DIRECT("relu_", relu_)
OUTBOARD_NATIVE_OVERLOAD("masked_fill_.Scalar", at::native::masked_fill__cpu,
                         at::Tensor&(at::Tensor&, const at::Tensor&, const at::Scalar&))
OUTBOARD_NATIVE("fill_.Scalar", fill_)
OUTBOARD_NATIVE("zero_", zero_)
OUTBOARD_DIRECT("where.self", where)
#endif  // OUTBOARD_CPU_STUBS

}  // namespace outboard::cpu_kernels
