// Matrix products by the driver's library: alpha * left @ right + beta * added, of matrices,
// vectors and batches of matrices in any strides.
//
// `added` is described to the library in up to three forms, until one is accepted: a bias, if it is
// a vector; an operand; the output itself.
#include "device_kernels/defined_kernel.h"
#include "device_kernels/library/library_call.h"
#include "device_kernels/product/product_call.h"
#include "runtime/driver/driver_table.h"
#include "transfer/copy.h"

namespace outboard {

class LibraryProductKernel final : public DefinedKernel {
 public:
  LibraryProductKernel(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;
  bool calls_library() const noexcept override { return true; }

 private:
  // False if the library declines.
  bool multiply(const ProductOperands& operands, ob_activation activation, c10::DeviceIndex device,
                const at::Tensor& out) const;

  const ProductCall call_;
  const int gelu_flag_;  // -1 for none
};

namespace {

using at::ScalarType;

// Writes a factor in the contract's format. False if it is not representable.
bool write_factor(const at::Scalar& factor, ScalarType dtype, double (&parts)[2]) {
  constexpr int64_t kLargestExact = int64_t{1} << 53;
  if (at::isIntegralType(dtype, /*includeBool=*/true)) {
    const auto whole = factor.to<int64_t>();
    parts[0] = static_cast<double>(whole);
    return whole <= kLargestExact && whole >= -kLargestExact;
  }
  const c10::complex<double> value = factor.toComplexDouble();
  parts[0] = value.real();
  parts[1] = value.imag();
  return true;
}

// An operand of 0 to 3 dimensions as three dimensions.
ob_tensor described(const at::Tensor& tensor, const void* data, const Matrices& matrices) {
  const auto& [batch, row, column, outer] = matrices.strides;
  return library_tensor(data, tensor.scalar_type(), matrices.sizes, {batch, row, column});
}

// The result dimension of a bias vector; 0 if `added` is more than a vector.
uint32_t bias_dimension_of(const ob_tensor& added) {
  if (added.strides[0] != 0) return 0;
  if (added.strides[1] != 0) return added.strides[2] == 0 ? 1 : 0;
  return added.strides[2] != 0 ? 2 : 0;
}

}  // namespace

LibraryProductKernel::LibraryProductKernel(const Definition& definition,
                                           const c10::FunctionSchema& schema)
    : DefinedKernel(definition, schema),
      call_(definition, overload_),
      gelu_flag_(overload_.find("use_gelu")) {}

bool LibraryProductKernel::serve(torch::jit::Stack* stack, c10::DeviceIndex device) {
  ProductOperands operands;
  if (driver().matrix_product == nullptr || !call_.read(*stack, device, operands) ||
      !library_computes(device, operands.dtype) || operands.left.numel() == 0 ||
      operands.right.numel() == 0) {
    return false;
  }
  const at::Tensor& given = operands.given;
  if (given.defined() && given.scalar_type() != operands.dtype) return false;
  // A 0-d result with lazy conjugation is left to the next kernel.
  if (operands.result_sizes.empty() && (operands.left.is_conj() || operands.right.is_conj())) {
    return false;
  }
  ob_activation activation = OB_ACTIVATION_NONE;
  if (gelu_flag_ >= 0) {
    activation =
        overload_.read(*stack, gelu_flag_).toBool() ? OB_ACTIVATION_GELU : OB_ACTIVATION_RELU;
  }
  const bool fits = given.defined() && given.sizes() == at::IntArrayRef(operands.result_sizes);
  // An output of wrong size is resized only after the library has accepted the call.
  at::Tensor out = fits ? given : empty_on(device, operands.result_sizes, operands.dtype);
  if (!multiply(operands, activation, device, out)) return false;
  if (given.defined() && !fits) {
    copy_into(
        prepare_result(overload_, given, operands.result_sizes, operands.dtype, device_of(device)),
        out);
  }
  overload_.finish(stack, std::move(out));
  return true;
}

bool LibraryProductKernel::multiply(const ProductOperands& operands, ob_activation activation,
                                    c10::DeviceIndex device, const at::Tensor& out) const {
  const ProductScalars& scalars = operands.scalars;
  ob_matrix_product description = {};
  if (!write_factor(scalars.alpha, operands.dtype, description.alpha) ||
      (scalars.adds && !write_factor(scalars.beta, operands.dtype, description.beta))) {
    return false;
  }
  const at::Tensor left = operands.left.resolve_conj();
  const at::Tensor right = operands.right.resolve_conj();
  const ob_tensor a = described(left, left.const_data_ptr(), matrices_of(left, /*is_left=*/true));
  const ob_tensor b = described(right, right.const_data_ptr(), matrices_of(right));
  const ob_tensor result = described(out, out.mutable_data_ptr(), matrices_of(out));
  description.struct_size = sizeof(description);
  description.a = &a;
  description.b = &b;
  description.out = &result;
  description.activation = activation;
  description.accumulation = library_accumulation(operands.dtype);
  description.flags = library_flags(operands.dtype);
  LibraryCall<ob_matrix_product> call(&ob_driver::matrix_product, "matrix_product", device);
  if (!scalars.adds) return call(description);

  const at::Tensor expanded = operands.added.expand(operands.result_sizes);
  const void* data = expanded.const_data_ptr();
  const ob_tensor added = described(expanded, data, matrices_of(expanded));
  const uint32_t dimension = bias_dimension_of(added);
  if (dimension != 0 && scalars.beta.equal(1)) {
    const ob_tensor bias =
        library_tensor(data, operands.dtype, {result.sizes[dimension]}, {added.strides[dimension]});
    description.bias = &bias;
    description.bias_dimension = dimension;
    if (call(description)) return true;
    description.bias = nullptr;
    description.bias_dimension = 0;
  }
  const bool in_place = added.data == result.data;
  description.added = in_place ? &result : &added;
  if (call(description)) return true;
  if (in_place) return false;
  description.added = &result;
  if (!call.accepts(description)) return false;
  copy_into(out, expanded);
  return call.submit(description);
}

C10_REGISTER_CLASS(DefinitionKinds, library_product, LibraryProductKernel)

}  // namespace outboard
