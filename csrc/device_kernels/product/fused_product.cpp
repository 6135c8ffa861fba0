#include "device_kernels/product/fused_product.h"

#include <ATen/ExpandUtils.h>

#include <algorithm>

#include "device_kernels/product/product_call.h"
#include "device_kernels/product/product_program.h"
#include "tensors/empty.h"

namespace outboard {

FusedProduct::FusedProduct(const std::string& source, const std::string& body)
    : source_(ProductProgram::keep(source)), body_(ProductProgram::keep(body)) {}

at::Tensor FusedProduct::call(const at::Tensor& left, const at::Tensor& right,
                              const std::optional<at::Tensor>& added,
                              const std::optional<at::Tensor>& other) const {
  TORCH_CHECK_VALUE(left.dim() == 2 && right.dim() == 2 && left.size(1) == right.size(0),
                    "a fused product takes matrices that fit, and got sizes ", left.sizes(),
                    " and ", right.sizes());
  const auto check = [&](const at::Tensor& tensor) {
    TORCH_CHECK_VALUE(tensor.device().type() == c10::DeviceType::PrivateUse1 &&
                          tensor.device() == left.device() &&
                          tensor.scalar_type() == left.scalar_type() &&
                          at::isFloatingType(tensor.scalar_type()) && !tensor.is_neg(),
                      "a fused product takes tensors of one floating dtype on one device");
  };
  check(left);
  check(right);
  const int64_t result_sizes[] = {left.size(0), right.size(1)};
  at::Tensor out = empty_on(left.device().index(), result_sizes, left.scalar_type());
  if (out.numel() == 0) return out;

  ProductLayout layout;
  layout.rows = left.size(0);
  layout.columns = right.size(1);
  layout.depth = left.size(1);
  layout.inner_depth = std::max<int64_t>(layout.depth, 1);
  layout.inner_columns = layout.columns;
  layout.left = strides_of(left, "mk", 'm', 'k');
  layout.right = strides_of(right, "kn", 'k', 'n');
  layout.out = strides_of(out, "mn", 'm', 'n');
  at::Tensor addend, operand;  // broadcast
  ProductFusion fusion;
  fusion.body = &body_;
  ProductLayout others = layout;  // whose indices are those of `other`
  if (other.has_value()) {
    check(*other);
    operand = other->expand(result_sizes);
    others.added = strides_of(operand, "mn", 'm', 'n');
    fusion.other = operand.const_data_ptr();
    fusion.row = others.added.row;
    fusion.column = others.added.column;
  }
  ProductScalars scalars;
  if (added.has_value()) {
    check(*added);
    addend = added->expand(result_sizes);
    layout.added = strides_of(addend, "mn", 'm', 'n');
    scalars.beta = 1;
    scalars.adds = true;
  }
  const ProductProgram& program =
      ProductProgram::find(out.device().index(), out.scalar_type(),
                           needs_wide_index(layout) || needs_wide_index(others), source_, &body_);
  void* c = out.mutable_data_ptr();
  // An operand without elements has no address, and is not read.
  const void* a = left.numel() > 0 ? left.const_data_ptr() : c;
  const void* b = right.numel() > 0 ? right.const_data_ptr() : c;
  const at::Tensor packed_left = program.pack_left(layout, a);
  const at::Tensor packed_right = program.pack_right(layout, b);
  program.multiply(layout, scalars, packed_left, packed_right, c,
                   scalars.adds ? addend.const_data_ptr() : nullptr, 0, layout.columns, fusion);
  return out;
}

}  // namespace outboard
