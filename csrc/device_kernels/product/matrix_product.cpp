#include "device_kernels/product/matrix_product.h"

#include <c10/util/accumulate.h>

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>

#include "transfer/copy.h"
#include "tensors/empty.h"
#include "device_kernels/kernel_types.h"
#include "runtime/driver/device.h"

namespace outboard {
namespace {

using at::ScalarType;

// Multiplications from which packing pays, and the least size in each direction.
constexpr int64_t kPackedWork = 32768;
constexpr int64_t kPackedSize = 4;
// Depth from which one row times one column is cut into slices.
constexpr int64_t kLongRow = 16384;

int64_t stride_of(const at::Tensor& tensor, const std::string& dimensions, char letter) {
  const size_t found = dimensions.find(letter);
  if (found == std::string::npos || tensor.size(found) == 1) return 0;
  return tensor.stride(found);
}

ProductStrides strides_of(const at::Tensor& tensor, const std::string& dimensions, char row,
                          char column) {
  ProductStrides strides;
  strides.batch = stride_of(tensor, dimensions, 'b');
  strides.row = stride_of(tensor, dimensions, row);
  strides.column = stride_of(tensor, dimensions, column);
  return strides;
}

void transpose(ProductStrides& strides) { std::swap(strides.row, strides.column); }

// The same product as right^T @ left^T.
ProductLayout transposed(ProductLayout layout) {
  std::swap(layout.rows, layout.columns);
  std::swap(layout.left, layout.right);
  layout.inner_columns = layout.columns;
  for (auto* each : {&layout.left, &layout.right, &layout.out, &layout.added}) transpose(*each);
  return layout;
}

bool fits(const at::Scalar& scalar, ScalarType dtype, bool integral) {
  if (scalar.isComplex()) return at::isComplexType(dtype);
  return !at::isIntegralType(dtype, /*includeBool=*/true) || !integral ||
         scalar.isIntegral(/*includeBool=*/true);
}

// Real or imaginary parts, as a view.
at::Tensor part(const at::Tensor& tensor, int64_t which) {
  return at::view_as_real(tensor).select(-1, which);
}

// The kernels that suit the sizes.
void multiply(const ProductProgram& program, const ProductLayout& layout,
              const ProductScalars& scalars, const void* a, const void* b, void* c, const void* d) {
  const int64_t work = layout.batches * layout.rows * layout.columns * layout.depth;
  const int64_t least = std::min({layout.rows, layout.columns, layout.depth});
  if (work >= kPackedWork && least >= kPackedSize) {
    const at::Tensor packed_left = program.pack_left(layout, a);
    const at::Tensor packed_right = program.pack_right(layout, b);
    program.multiply(layout, scalars, packed_left, packed_right, c, d, 0, layout.columns);
  } else if (layout.batches == 1 && layout.rows == 1 && layout.columns == 1 &&
             layout.depth >= kLongRow && !scalars.adds && scalars.alpha.equal(1)) {
    program.multiply_slices(layout, a, b, c);
  } else if (layout.right.column == 1 && layout.columns >= program.tile_columns()) {
    program.multiply_rows(layout, scalars, a, b, c, d);
  } else if (layout.left.row == 1 && layout.rows >= program.tile_columns()) {
    program.multiply_rows(transposed(layout), scalars, b, a, c, d);
  } else {
    program.multiply_single(layout, scalars, a, b, c, d);
  }
}

}  // namespace

struct MatrixProductKernel::Sizes {
  int64_t b = -1, m = -1, n = -1, k = -1;

  int64_t& of(char letter) {
    switch (letter) {
      case 'b':
        return b;
      case 'm':
        return m;
      case 'n':
        return n;
      case 'k':
        return k;
      default:
        TORCH_CHECK_VALUE(false, "it has the dimension '", letter, "'; there are b, m, n and k");
    }
  }
};

MatrixProductKernel::MatrixProductKernel(const Row& row, const c10::FunctionSchema& schema)
    : EngineKernel(row, schema),
      source_(ProductProgram::keep(row.text("source"))),
      left_dimensions_(row.text("left_dimensions")),
      right_dimensions_(row.text("right_dimensions")),
      result_dimensions_(row.text("result_dimensions")),
      dtypes_(static_cast<uint64_t>(row.integer("dtypes"))),
      left_(overload_.index(row.text("left"))),
      right_(overload_.index(row.text("right"))),
      added_(row.text("added").empty() ? -1 : overload_.index(row.text("added"))),
      alpha_(overload_.find("alpha")),
      beta_(overload_.find("beta")),
      integral_scalars_(row.flag("integral_scalars")),
      conjugates_left_(row.flag("conjugates_left")),
      resizes_silently_(row.flag("resizes_silently")) {
  Sizes known;
  for (const char* property : {"left_dimensions", "right_dimensions", "result_dimensions"}) {
    for (const char letter : row.text(property)) known.of(letter);
  }
}

bool MatrixProductKernel::measure(const at::Tensor& tensor, const std::string& dimensions,
                                  Sizes& sizes) const {
  if (tensor.dim() != static_cast<int64_t>(dimensions.size())) return false;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    int64_t& size = sizes.of(dimensions[i]);
    if (size == -1) size = tensor.size(i);
    if (size != tensor.size(i)) return false;
  }
  return true;
}

bool MatrixProductKernel::read_scalars(const torch::jit::Stack& stack, ScalarType dtype,
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

bool MatrixProductKernel::accepts_output(const at::Tensor& output, const at::Tensor& left,
                                         const at::Tensor& right, const at::Tensor& added,
                                         at::IntArrayRef sizes) const {
  if (!output.defined()) return true;
  if (!is_dense_on(output, left.device().index()) || output.is_conj() || output.is_neg() ||
      at::has_internal_overlap(output) == at::MemOverlap::Yes) {
    return false;
  }
  // Where no operator would convert, prepare_result raises; otherwise the host knows what counts.
  if (output.scalar_type() != left.scalar_type()) {
    return !at::canCast(left.scalar_type(), output.scalar_type());
  }
  const bool fits = output.sizes() == sizes;
  if (!fits && overload_.form() == Overload::Form::kInPlace) return false;
  const auto apart = [&](const at::Tensor& operand) {
    if (!operand.defined() || !operand.storage().is_alias_of(output.storage())) return true;
    return fits && at::get_overlap_status(output, operand) == at::MemOverlapStatus::No;
  };
  if (!apart(left) || !apart(right)) return false;
  // What is added may be the output itself: each element is read just before it is written.
  return apart(added) || (fits && added.sizes() == sizes && added.strides() == output.strides() &&
                          added.storage_offset() == output.storage_offset());
}

bool MatrixProductKernel::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                              torch::jit::Stack* stack, c10::DeviceIndex device) {
  const at::Tensor& left = overload_.read(*stack, left_).toTensor();
  const at::Tensor& right = overload_.read(*stack, right_).toTensor();
  const at::Tensor added = added_ >= 0 ? overload_.read(*stack, added_).toTensor() : at::Tensor();
  if (!is_dense_on(left, device) || !is_dense_on(right, device) || left.is_neg() ||
      right.is_neg() || (added.defined() && (added.is_neg() || added.is_conj()))) {
    return false;
  }
  const ScalarType dtype = left.scalar_type();
  if (right.scalar_type() != dtype || ((dtypes_ >> static_cast<int>(dtype)) & 1) == 0 ||
      !computes(device, dtype)) {
    return false;
  }
  Sizes sizes;
  if (!measure(left, left_dimensions_, sizes) || !measure(right, right_dimensions_, sizes)) {
    return false;
  }
  at::DimVector result_sizes;
  for (const char letter : result_dimensions_) result_sizes.push_back(sizes.of(letter));
  if (added_ >= 0 && (!is_dense_on(added, device) || added.scalar_type() != dtype ||
                      !at::is_expandable_to(added.sizes(), result_sizes))) {
    return false;
  }
  ProductScalars scalars;
  if (!read_scalars(*stack, dtype, scalars)) return false;
  const at::Tensor& given = overload_.given_output(*stack);
  if (!accepts_output(given, left, right, added, result_sizes)) return false;

  at::Tensor out = prepare_result(overload_, given, result_sizes, dtype, device_of(device),
                                  /*strides=*/{}, resizes_silently_);
  if (out.numel() > 0) {
    const at::Tensor expanded = scalars.adds ? added.expand(result_sizes) : at::Tensor();
    if (at::isComplexType(dtype)) {
      enqueue_complex(scalars, left, right, expanded, out, sizes);
    } else {
      enqueue(scalars, left, right, expanded, out, sizes);
    }
  }
  overload_.finish(stack, conjugates_both(left, right) ? out.conj() : std::move(out));
  return true;
}

// Then a new number is returned that is conjugated when it is read, as on CPU.
bool MatrixProductKernel::conjugates_both(const at::Tensor& left, const at::Tensor& right) const {
  return overload_.form() == Overload::Form::kFunctional && result_dimensions_.empty() &&
         left.is_conj() != conjugates_left_ && right.is_conj();
}

void MatrixProductKernel::enqueue_complex(const ProductScalars& scalars, const at::Tensor& left,
                                          const at::Tensor& right, const at::Tensor& added,
                                          const at::Tensor& out, const Sizes& sizes) const {
  const bool plain = !scalars.adds && scalars.alpha.equal(1);
  const at::Tensor product =
      plain ? out : empty_on(out.device().index(), out.sizes(), out.scalar_type());
  const at::Tensor a = left.is_conj() ? left.conj() : left;
  const at::Tensor b = right.is_conj() ? right.conj() : right;
  const bool both = conjugates_both(left, right);
  const int a_sign = left.is_conj() != conjugates_left_ && !both ? -1 : 1;
  const int b_sign = right.is_conj() && !both ? -1 : 1;
  // One part of the result: the product of two parts, plus or minus that of the others.
  const auto write = [&](int64_t to, int64_t a1, int64_t b1, int sign1, int64_t a2, int64_t b2,
                         int sign2) {
    const at::Tensor result = part(product, to);
    ProductScalars first;
    first.alpha = sign1;
    enqueue(first, part(a, a1), part(b, b1), at::Tensor(), result, sizes);
    ProductScalars second;
    second.alpha = sign2;
    second.beta = 1;
    second.adds = true;
    enqueue(second, part(a, a2), part(b, b2), result, result, sizes);
  };
  write(0, 0, 0, 1, 1, 1, -a_sign * b_sign);
  write(1, 0, 1, b_sign, 1, 0, a_sign);
  if (plain) return;
  at::Tensor value = scalars.alpha.equal(1) ? product : at::mul(product, scalars.alpha);
  if (scalars.adds) value = at::add(value, at::mul(added, scalars.beta));
  copy_into(out, value);
}

void MatrixProductKernel::enqueue(const ProductScalars& scalars, const at::Tensor& left,
                                  const at::Tensor& right, const at::Tensor& added,
                                  const at::Tensor& out, const Sizes& sizes) const {
  ProductLayout layout;
  layout.batches = std::max<int64_t>(sizes.b, 1);
  layout.rows = std::max<int64_t>(sizes.m, 1);
  layout.columns = std::max<int64_t>(sizes.n, 1);
  layout.depth = sizes.k == -1 ? 1 : sizes.k;
  layout.left = strides_of(left, left_dimensions_, 'm', 'k');
  layout.right = strides_of(right, right_dimensions_, 'k', 'n');
  layout.out = strides_of(out, result_dimensions_, 'm', 'n');
  if (added.defined()) layout.added = strides_of(added, result_dimensions_, 'm', 'n');
  layout.inner_depth = std::max<int64_t>(layout.depth, 1);
  layout.inner_columns = layout.columns;
  const bool sums_batches = sizes.b != -1 && result_dimensions_.find('b') == std::string::npos;
  if (sums_batches) layout.batches = 1;

  const ProductProgram& program = ProductProgram::find(out.device().index(), out.scalar_type(),
                                                       needs_wide_index(layout), source_);
  void* c = out.mutable_data_ptr();
  // An operand without elements has no address, and is not read.
  const auto* a = static_cast<const char*>(left.numel() > 0 ? left.const_data_ptr() : c);
  const auto* b = static_cast<const char*>(right.numel() > 0 ? right.const_data_ptr() : c);
  const void* d = added.defined() ? added.const_data_ptr() : nullptr;
  if (!sums_batches) {
    multiply(program, layout, scalars, a, b, c, d);
    return;
  }
  // One after the other, rounded in between, as on CPU.
  if (sizes.b == 0) layout.depth = 0;
  multiply(program, layout, scalars, a, b, c, d);
  ProductScalars further = scalars;
  further.beta = 1;
  further.adds = true;
  layout.added = layout.out;
  const auto size = static_cast<int64_t>(out.element_size());
  for (int64_t i = 1; i < sizes.b; ++i) {
    multiply(program, layout, further, a + i * layout.left.batch * size,
             b + i * layout.right.batch * size, c, c);
  }
}

OUTBOARD_ENGINE("matrix_product", MatrixProductKernel);

}  // namespace outboard
