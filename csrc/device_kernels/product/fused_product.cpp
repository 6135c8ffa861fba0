#include "device_kernels/product/fused_product.h"

#include <algorithm>

#include "device_kernels/product/groups/group_tiles.h"
#include "device_kernels/product/product_call.h"
#include "device_kernels/product/product_program.h"
#include "tensors/empty.h"

namespace outboard {

FusedProduct::FusedProduct(const std::string& source, const std::string& groups)
    : source_(ProductProgram::keep(source)), groups_(ProductProgram::keep(groups)) {}

std::vector<at::Tensor> FusedProduct::call(const at::Tensor& left, const at::Tensor& right,
                                           const Epilogue::Texts& texts,
                                           const std::vector<at::Tensor>& operands,
                                           const std::vector<at::ScalarType>& results) const {
  TORCH_CHECK_VALUE(left.dim() == 2 && right.dim() == 2 && left.size(1) == right.size(0),
                    "a fused product takes matrices that fit, and got sizes ", left.sizes(),
                    " and ", right.sizes());
  for (const at::Tensor* tensor : {&left, &right}) {
    TORCH_CHECK_VALUE(tensor->device().type() == c10::DeviceType::PrivateUse1 &&
                          tensor->device() == left.device() &&
                          tensor->scalar_type() == left.scalar_type() &&
                          at::isFloatingType(tensor->scalar_type()) && !tensor->is_neg(),
                      "a fused product takes tensors of one floating dtype on one device");
  }
  const c10::DeviceIndex device = left.device().index();
  ProductLayout layout;
  layout.rows = left.size(0);
  layout.columns = right.size(1);
  layout.depth = left.size(1);
  layout.inner_depth = std::max<int64_t>(layout.depth, 1);
  layout.inner_columns = layout.columns;
  layout.left = strides_of(left, "mk", 'm', 'k');
  layout.right = strides_of(right, "kn", 'k', 'n');
  const Epilogue& kind = Epilogue::of(texts, operands, results);
  const at::Tensor out = empty_on(device, {layout.rows, layout.columns}, results[0]);
  const BoundEpilogue epilogue(kind, operands, out, layout.rows, layout.columns);
  if (out.numel() == 0) return epilogue.results();
  layout.out = strides_of(out, "mn", 'm', 'n');

  const at::ScalarType dtype = left.scalar_type();
  const bool wide = needs_wide_index(layout);
  // An operand without elements has no address, and is not read.
  void* c = out.mutable_data_ptr();
  const void* a = left.numel() > 0 ? left.const_data_ptr() : c;
  const void* b = right.numel() > 0 ? right.const_data_ptr() : c;
  if (const auto* groups = GroupTiles::find(device, dtype, wide, groups_)) {
    groups->multiply(layout, ProductScalars(), {a, b, c, nullptr}, &epilogue);
    return epilogue.results();
  }
  const ProductProgram& program = ProductProgram::find(device, dtype, wide, source_);
  const TileOperand rows = program.left_operand(layout, a);
  const TileOperand columns = program.right_operand(layout, b);
  program.multiply(layout, ProductScalars(), rows, columns, c, nullptr, 0, layout.columns,
                   &epilogue);
  return epilogue.results();
}

}  // namespace outboard
