#include "device_kernels/product/product_call.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>

namespace outboard {
namespace {

using at::ScalarType;

int64_t stride_of(const at::Tensor& tensor, const std::string& dimensions, char letter) {
  const size_t found = dimensions.find(letter);
  if (found == std::string::npos || tensor.size(found) == 1) return 0;
  return tensor.stride(found);
}

// `integral`: alpha and beta are checked as for sums.
bool fits(const at::Scalar& scalar, ScalarType dtype, bool integral) {
  if (scalar.isComplex()) return at::isComplexType(dtype);
  if (integral && scalar.isBoolean()) return dtype == ScalarType::Bool;
  return !at::isIntegralType(dtype, /*includeBool=*/true) || !integral ||
         scalar.isIntegral(/*includeBool=*/true);
}

// The dimensions of an operand, by its rank; `outer` in outer products.
std::string dimensions_of(const Definition& definition, const char* rank, const std::string& matrix,
                          const char* outer) {
  const int64_t count = definition.integer(rank);
  if (definition.flag("is_outer")) return outer;
  return count == 1 ? "k" : count == 2 ? matrix : "b" + matrix;
}

// The dimensions of the result: those that are not summed over.
std::string result_of(const std::string& left, const std::string& right, bool sums_batches) {
  std::string result;
  for (const char letter : {'b', 'm', 'n'}) {
    const bool given = (left + right).find(letter) != std::string::npos;
    if (given && !(letter == 'b' && sums_batches)) result += letter;
  }
  return result;
}

bool measure(const at::Tensor& tensor, const std::string& dimensions, ProductSizes& sizes) {
  if (tensor.dim() != static_cast<int64_t>(dimensions.size())) return false;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    int64_t& size = sizes.of(dimensions[i]);
    if (size == -1) size = tensor.size(i);
    if (size != tensor.size(i)) return false;
  }
  return true;
}

}  // namespace

ProductStrides strides_of(const at::Tensor& tensor, const std::string& dimensions, char row,
                          char column) {
  ProductStrides strides;
  strides.batch = stride_of(tensor, dimensions, 'b');
  strides.row = stride_of(tensor, dimensions, row);
  strides.column = stride_of(tensor, dimensions, column);
  return strides;
}

int64_t& ProductSizes::of(char letter) {
  switch (letter) {
    case 'b':
      return b;
    case 'm':
      return m;
    case 'n':
      return n;
    default:
      return k;
  }
}

ProductCall::ProductCall(const Definition& definition, const Overload& overload)
    : overload_(overload),
      left_dimensions_(dimensions_of(definition, "left_rank", "mk", "m")),
      right_dimensions_(dimensions_of(definition, "right_rank", "kn", "n")),
      result_dimensions_(
          result_of(left_dimensions_, right_dimensions_, definition.flag("sums_batches"))),
      dtypes_(definition.dtypes()),
      left_(overload_.index(definition.string("left"))),
      right_(overload_.index(definition.string("right"))),
      added_(definition.string("added").empty() ? -1 : overload_.index(definition.string("added"))),
      alpha_(overload_.find("alpha")),
      beta_(overload_.find("beta")),
      integral_scalars_(definition.flag("integral_scalars")) {}

bool ProductCall::read_scalars(const torch::jit::Stack& stack, ScalarType dtype,
                               ProductScalars& scalars) const {
  if (alpha_ >= 0) scalars.alpha = overload_.read(stack, alpha_).toScalar();
  if (added_ >= 0) scalars.beta = beta_ >= 0 ? overload_.read(stack, beta_).toScalar() : 1;
  if (!fits(scalars.alpha, dtype, integral_scalars_) ||
      !fits(scalars.beta, dtype, integral_scalars_)) {
    return false;
  }
  scalars.adds = added_ >= 0 && scalars.beta.toComplexDouble() != 0.0;
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
  const at::Tensor& left = operands.left = overload_.read(stack, left_).toTensor();
  const at::Tensor& right = operands.right = overload_.read(stack, right_).toTensor();
  if (added_ >= 0) operands.added = overload_.read(stack, added_).toTensor();
  const at::Tensor& added = operands.added;
  if (!is_dense_on(left, device) || !is_dense_on(right, device) || left.is_neg() ||
      right.is_neg() || (added.defined() && (added.is_neg() || added.is_conj()))) {
    return false;
  }
  const ScalarType dtype = operands.dtype = left.scalar_type();
  if (right.scalar_type() != dtype || (dtypes_ & dtype_bit(dtype)) == 0) return false;
  if (!measure(left, left_dimensions_, operands.sizes) ||
      !measure(right, right_dimensions_, operands.sizes)) {
    return false;
  }
  for (const char letter : result_dimensions_) {
    operands.result_sizes.push_back(operands.sizes.of(letter));
  }
  if (added_ >= 0 && (!is_dense_on(added, device) || added.scalar_type() != dtype ||
                      !at::is_expandable_to(added.sizes(), operands.result_sizes))) {
    return false;
  }
  if (!read_scalars(stack, dtype, operands.scalars)) return false;
  operands.given = overload_.given_output(stack);
  return accepts_output(operands);
}

}  // namespace outboard
