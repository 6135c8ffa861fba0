#include "device_kernels/product/product_call.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>

namespace outboard {

using at::ScalarType;

Matrices matrices_of(const at::Tensor& tensor, bool is_left) {
  Matrices result;
  int64_t* const strides[] = {&result.strides.batch, &result.strides.row, &result.strides.column};
  size_t at = tensor.dim() == 1 && !is_left ? 1 : 3 - static_cast<size_t>(tensor.dim());
  for (int64_t d = 0; d < tensor.dim(); ++d, ++at) {
    result.sizes[at] = tensor.size(d);
    if (tensor.size(d) != 1) *strides[at] = tensor.stride(d);
  }
  return result;
}

ProductCall::ProductCall(const Definition& definition, const Overload& overload)
    : overload_(overload),
      left_rank_(definition.integer("left_rank")),
      right_rank_(definition.integer("right_rank")),
      dtypes_(definition.dtypes()),
      alpha_(overload_.find("alpha")),
      beta_(overload_.find("beta")) {}

bool ProductCall::read_scalars(const torch::jit::Stack& stack, ScalarType dtype,
                               ProductScalars& scalars) const {
  if (alpha_ >= 0) scalars.alpha = overload_.read(stack, alpha_).toScalar();
  if (beta_ >= 0) scalars.beta = overload_.read(stack, beta_).toScalar();
  if (!at::isComplexType(dtype) && (scalars.alpha.isComplex() || scalars.beta.isComplex())) {
    return false;
  }
  scalars.adds = beta_ >= 0 && scalars.beta.toComplexDouble() != 0.0;
  return true;
}

bool ProductCall::accepts_output(const ProductOperands& operands) const {
  const at::Tensor& output = operands.given;
  const at::Tensor& left = operands.left;
  const at::Tensor& right = operands.right;
  const at::Tensor& added = operands.added;
  if (!output.defined()) return true;
  if (!is_dense_on(output, left.device().index()) || output.is_conj() || output.is_neg() ||
      at::has_internal_overlap(output) == at::MemOverlap::Yes) {
    return false;
  }
  // prepare_result raises if no operator converts; otherwise the CPU kernel knows the rule.
  if (output.scalar_type() != left.scalar_type()) {
    return !at::canCast(left.scalar_type(), output.scalar_type());
  }
  const bool fits = output.sizes() == operands.result_sizes;
  if (!fits && overload_.form() == Overload::Form::kInPlace) return false;
  const auto apart = [&](const at::Tensor& operand) {
    if (!operand.defined() || !operand.storage().is_alias_of(output.storage())) return true;
    return fits && at::get_overlap_status(output, operand) == at::MemOverlapStatus::No;
  };
  if (!apart(left) || !apart(right)) return false;
  // `added` may be the output: each element is read just before it is written.
  return apart(added) ||
         (fits && added.sizes() == operands.result_sizes && added.strides() == output.strides() &&
          added.storage_offset() == output.storage_offset());
}

bool ProductCall::read(const torch::jit::Stack& stack, c10::DeviceIndex device,
                       ProductOperands& operands) const {
  const bool adds = beta_ >= 0;
  const at::Tensor& left = operands.left = overload_.read(stack, adds).toTensor();
  const at::Tensor& right = operands.right = overload_.read(stack, adds + 1).toTensor();
  if (adds) operands.added = overload_.read(stack, 0).toTensor();
  const at::Tensor& added = operands.added;
  if (!is_dense_on(left, device) || !is_dense_on(right, device) || left.is_neg() ||
      right.is_neg() || (added.defined() && (added.is_neg() || added.is_conj()))) {
    return false;
  }
  const ScalarType dtype = operands.dtype = left.scalar_type();
  if (right.scalar_type() != dtype || (dtypes_ & dtype_bit(dtype)) == 0) return false;
  if (left.dim() != left_rank_ || right.dim() != right_rank_) return false;
  const Matrices a = matrices_of(left, /*is_left=*/true), b = matrices_of(right);
  if (a.sizes[0] != b.sizes[0] || a.sizes[2] != b.sizes[1]) return false;
  if (left_rank_ == 3) operands.result_sizes.push_back(a.sizes[0]);
  if (left_rank_ > 1) operands.result_sizes.push_back(a.sizes[1]);
  if (right_rank_ > 1) operands.result_sizes.push_back(b.sizes[2]);
  if (adds && (!is_dense_on(added, device) || added.scalar_type() != dtype ||
               !at::is_expandable_to(added.sizes(), operands.result_sizes))) {
    return false;
  }
  if (!read_scalars(stack, dtype, operands.scalars)) return false;
  operands.given = overload_.given_output(stack);
  return accepts_output(operands);
}

}  // namespace outboard
