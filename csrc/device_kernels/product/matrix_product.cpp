// The kernel generator of matrix products: alpha * left @ right + beta * added, of matrices,
// vectors and batches of matrices in any strides.
#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <tuple>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/product/group_tiles.h"
#include "device_kernels/product/product_call.h"
#include "device_kernels/product/product_program.h"
#include "runtime/driver/device.h"
#include "tensors/dense.h"
#include "transfer/copy.h"

namespace outboard {

class MatrixProductKernel final : public DefinedKernel {
 public:
  MatrixProductKernel(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  bool conjugates_both(const ProductOperands& operands) const;
  // `operands.added`: with the sizes of the result; undefined for none.
  void enqueue_complex(const ProductOperands& operands, const at::Tensor& out) const;
  void enqueue(const ProductOperands& operands, const at::Tensor& out) const;

  const ProductCall call_;
};

namespace {

using at::ScalarType;

// Multiplications from which packing pays, and the least size in each dimension.
constexpr int64_t kPackedWork = 32768;
constexpr int64_t kPackedSize = 4;
// K from which work-groups share a row of a result with few columns.
constexpr int64_t kSharedRow = 64;
// K from which a product of one row and one column is cut into slices.
constexpr int64_t kLongRow = 16384;

void transpose(ProductStrides& strides) { std::swap(strides.row, strides.column); }

// The equal product right^T @ left^T.
ProductLayout transposed(ProductLayout layout) {
  std::swap(layout.rows, layout.columns);
  std::swap(layout.left, layout.right);
  layout.inner_columns = layout.columns;
  for (auto* each : {&layout.left, &layout.right, &layout.out, &layout.added}) transpose(*each);
  return layout;
}

// Real or imaginary parts, as a view.
at::Tensor part(const at::Tensor& tensor, int64_t which) {
  return at::view_as_real(tensor).select(-1, which);
}

// Selects the kernels by size.
void multiply(c10::DeviceIndex device, ScalarType dtype, const ProductLayout& layout,
              const ProductScalars& scalars, const ProductAddresses& addresses) {
  const auto& [left, right, out, added] = addresses;
  const ProductAddresses exchanged = {right, left, out, added};
  const int64_t work = layout.batches * layout.rows * layout.columns * layout.depth;
  const int64_t least = std::min({layout.rows, layout.columns, layout.depth});
  const bool tiled = work >= kPackedWork && least >= kPackedSize;
  const bool wide = needs_wide_index(layout);
  if (work >= kPackedWork) {
    const auto* groups = GroupTiles::find(device, dtype, wide);
    if (groups != nullptr && tiled) return groups->multiply(layout, scalars, addresses);
    if (groups != nullptr && layout.depth >= kSharedRow) {
      return layout.columns <= layout.rows
                 ? groups->multiply_thin(layout, scalars, addresses)
                 : groups->multiply_thin(transposed(layout), scalars, exchanged);
    }
  }
  const ProductProgram& program = ProductProgram::find(device, dtype, wide);
  if (tiled) {
    const TileOperand rows = program.left_operand(layout, left);
    const TileOperand columns = program.right_operand(layout, right);
    program.multiply(layout, scalars, rows, columns, out, added, 0, layout.columns);
  } else if (layout.batches == 1 && layout.rows == 1 && layout.columns == 1 &&
             layout.depth >= kLongRow && !scalars.adds && scalars.alpha.equal(1)) {
    program.multiply_slices(layout, addresses);
  } else if (layout.right.column == 1 && layout.columns >= program.tile_columns()) {
    program.multiply_rows(layout, scalars, addresses);
  } else if (layout.left.row == 1 && layout.rows >= program.tile_columns()) {
    program.multiply_rows(transposed(layout), scalars, exchanged);
  } else {
    program.multiply_single(layout, scalars, addresses);
  }
}

}  // namespace

MatrixProductKernel::MatrixProductKernel(const Definition& definition,
                                         const c10::FunctionSchema& schema)
    : DefinedKernel(definition, schema), call_(definition, overload_) {}

bool MatrixProductKernel::serve(torch::jit::Stack* stack, c10::DeviceIndex device) {
  ProductOperands operands;
  if (!call_.read(*stack, device, operands) || !computes(device, operands.dtype)) return false;
  if (operands.added.defined()) operands.added = operands.added.expand(operands.result_sizes);
  at::Tensor out = prepare_result(overload_, operands.given, operands.result_sizes, operands.dtype,
                                  device_of(device));
  if (out.numel() > 0) {
    if (!operands.scalars.adds) operands.added = at::Tensor();
    at::isComplexType(operands.dtype) ? enqueue_complex(operands, out) : enqueue(operands, out);
  }
  overload_.finish(stack, conjugates_both(operands) ? out.conj() : std::move(out));
  return true;
}

// True if the functional form returns a 0-d result with lazy conjugation, as on CPU.
bool MatrixProductKernel::conjugates_both(const ProductOperands& operands) const {
  return overload_.form() == Overload::Form::kFunctional && operands.result_sizes.empty() &&
         operands.left.is_conj() && operands.right.is_conj();
}

void MatrixProductKernel::enqueue_complex(const ProductOperands& operands,
                                          const at::Tensor& out) const {
  const at::Tensor& left = operands.left;
  const at::Tensor& right = operands.right;
  const ProductScalars& scalars = operands.scalars;
  const bool plain = !scalars.adds && scalars.alpha.equal(1);
  const at::Tensor product =
      plain ? out : empty_on(out.device().index(), out.sizes(), out.scalar_type());
  const at::Tensor a = left.is_conj() ? left.conj() : left;
  const at::Tensor b = right.is_conj() ? right.conj() : right;
  const bool both = conjugates_both(operands);
  const int a_sign = left.is_conj() && !both ? -1 : 1;
  const int b_sign = right.is_conj() && !both ? -1 : 1;
  // One part of the result: a sum of two products of parts, with signs.
  const auto write = [&](int64_t to, int64_t a1, int64_t b1, int sign1, int64_t a2, int64_t b2,
                         int sign2) {
    const at::Tensor result = part(product, to);
    ProductOperands parts;
    parts.left = part(a, a1);
    parts.right = part(b, b1);
    parts.scalars.alpha = sign1;
    enqueue(parts, result);
    parts.left = part(a, a2);
    parts.right = part(b, b2);
    parts.added = result;
    parts.scalars = {sign2, 1, /*adds=*/true};
    enqueue(parts, result);
  };
  write(0, 0, 0, 1, 1, 1, -a_sign * b_sign);
  write(1, 0, 1, b_sign, 1, 0, a_sign);
  if (plain) return;
  at::Tensor value = scalars.alpha.equal(1) ? product : at::mul(product, scalars.alpha);
  if (scalars.adds) value = at::add(value, at::mul(operands.added, scalars.beta));
  copy_into(out, value);
}

void MatrixProductKernel::enqueue(const ProductOperands& operands, const at::Tensor& out) const {
  const auto& [left, right, added] = std::tie(operands.left, operands.right, operands.added);
  const Matrices a = matrices_of(left, /*is_left=*/true), b = matrices_of(right);
  ProductLayout layout;
  layout.batches = a.sizes[0];
  layout.rows = a.sizes[1];
  layout.columns = layout.inner_columns = b.sizes[2];
  layout.depth = a.sizes[2];
  layout.inner_depth = std::max<int64_t>(layout.depth, 1);
  layout.left = a.strides;
  layout.right = b.strides;
  layout.out = matrices_of(out).strides;
  if (added.defined()) layout.added = matrices_of(added).strides;
  void* result = out.mutable_data_ptr();
  // An empty operand has no address and is not read.
  multiply(out.device().index(), out.scalar_type(), layout, operands.scalars,
           {left.numel() > 0 ? left.const_data_ptr() : result,
            right.numel() > 0 ? right.const_data_ptr() : result, result,
            added.defined() ? added.const_data_ptr() : nullptr});
}

C10_REGISTER_CLASS(DefinitionKinds, matrix_product, MatrixProductKernel)

}  // namespace outboard
