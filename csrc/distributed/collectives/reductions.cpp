#include "distributed/collectives/reductions.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include "torch_version.h"

namespace outboard::distributed {
namespace {

using c10d::ReduceOp;
#if OUTBOARD_TORCH_AT_LEAST(13)
using Factor = c10d::PreMulSumSupplement;
#else
using Factor = c10d::NCCLPreMulSumSupplement;
#endif

// Dtypes of Gloo. Other integers are reduced in wider ones, whose lower bits are equal.
at::ScalarType carrier_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return at::kByte;
    case at::kShort:
    case at::kUInt16:
      return at::kInt;
    case at::kUInt32:
    case at::kUInt64:
      return at::kLong;
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2:
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2fnuz:
      return at::kFloat;
    case at::kComplexFloat:
      return at::kFloat;
    case at::kComplexDouble:
      return at::kDouble;
    case at::kComplexHalf:
      return at::kHalf;
    default:
      return dtype;
  }
}

// The operation on bytes that are 0 or 1.
ReduceOp::RedOpType logical(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::BOR:
      return ReduceOp::MAX;
    case ReduceOp::PRODUCT:
    case ReduceOp::BAND:
      return ReduceOp::MIN;
    default:
      return op;
  }
}

bool is_bitwise(ReduceOp::RedOpType op) {
  return op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR;
}

}  // namespace

Reduction::Reduction(at::ScalarType dtype, const ReduceOp& op, int64_t ranks)
    : carrier_(carrier_of(dtype)), complex_(at::isComplexType(dtype)) {
  ReduceOp::RedOpType kind = op.op_;
  TORCH_CHECK_TYPE(
      !complex_ || kind == ReduceOp::SUM || kind == ReduceOp::AVG || kind == ReduceOp::PREMUL_SUM,
      "complex numbers are reduced to sums and averages only; reduce their real and "
      "imaginary parts by torch.view_as_real");
  TORCH_CHECK_TYPE(!is_bitwise(kind) || at::isIntegralType(dtype, /*includeBool=*/true),
                   "bitwise reductions are for integers and bool, and got ", dtype);
  if (kind == ReduceOp::AVG) {
    TORCH_CHECK_TYPE(dtype != at::kBool, "there is no average of bool; convert to a number");
    divisor_ = ranks;
    kind = ReduceOp::SUM;
  }
  if (kind == ReduceOp::PREMUL_SUM) {
    const auto* factor = dynamic_cast<const Factor*>(op.supplement_.get());
    TORCH_CHECK_VALUE(factor != nullptr, "PREMUL_SUM has no factor");
    factor_ = factor->tensor_factor.defined()
                  ? factor->tensor_factor.cpu()
                  : at::scalar_tensor(factor->double_factor, at::kDouble);
    kind = ReduceOp::SUM;
  }
  if (dtype == at::kBool) kind = logical(kind);
  cpu_op_ = ReduceOp(kind);
}

at::Tensor Reduction::carried(const at::Tensor& input) const {
  at::Tensor given = complex_ ? at::view_as_real(input) : input;
  if (given.scalar_type() != carrier_) given = given.to(carrier_);
  if (factor_.defined()) {
    // Out of place: the input may be the caller's memory.
    given = given.mul(factor_.to(given.scalar_type()));
  }
  return given;
}

at::Tensor Reduction::carried_result(const at::Tensor& output) const {
  const at::Tensor real = complex_ ? at::view_as_real(output) : output;
  return real.scalar_type() == carrier_ ? real
                                        : at::empty_like(real, real.options().dtype(carrier_));
}

void Reduction::finish(const at::Tensor& output, const at::Tensor& carried) const {
  if (divisor_ != 1) {
    if (at::isFloatingType(carried.scalar_type())) {
      carried.div_(divisor_);
    } else {
      carried.div_(divisor_, "trunc");
    }
  }
  const at::Tensor target = complex_ ? at::view_as_real(output) : output;
  if (carried.data_ptr() != target.data_ptr()) target.copy_(carried);
}

}  // namespace outboard::distributed
