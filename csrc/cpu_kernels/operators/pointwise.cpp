// Pointwise operators.
#include "cpu_kernels/typed/structured.h"
#include "cpu_kernels/typed/typed_kernel.h"

namespace outboard::cpu_kernels {

// Operators whose overloads have the usual names.
#define OUTBOARD_PLAIN(op) OUTBOARD_POINTWISE(op##_out, #op, #op "_", #op ".out")
#define OUTBOARD_TENSOR(op) \
  OUTBOARD_POINTWISE(op##_out, #op ".Tensor", #op "_.Tensor", #op ".Tensor_out")
#define OUTBOARD_GRADIENT(op) \
  OUTBOARD_POINTWISE_OUT_OF_PLACE(op##_backward_out, #op "_backward", #op "_backward.grad_input")

// ---- One operand

OUTBOARD_PLAIN(acos)
OUTBOARD_PLAIN(acosh)
OUTBOARD_PLAIN(asin)
OUTBOARD_PLAIN(asinh)
OUTBOARD_PLAIN(atan)
OUTBOARD_PLAIN(atanh)
OUTBOARD_PLAIN(bitwise_not)
OUTBOARD_PLAIN(ceil)
OUTBOARD_PLAIN(cos)
OUTBOARD_PLAIN(cosh)
OUTBOARD_PLAIN(erf)
OUTBOARD_PLAIN(erfc)
OUTBOARD_PLAIN(exp2)
OUTBOARD_PLAIN(exp)
OUTBOARD_PLAIN(expm1)
OUTBOARD_PLAIN(floor)
OUTBOARD_PLAIN(log10)
OUTBOARD_PLAIN(log1p)
OUTBOARD_PLAIN(log2)
OUTBOARD_PLAIN(log)
OUTBOARD_PLAIN(neg)
OUTBOARD_PLAIN(reciprocal)
OUTBOARD_PLAIN(round)
OUTBOARD_PLAIN(rsqrt)
OUTBOARD_PLAIN(sigmoid)
OUTBOARD_PLAIN(sign)
OUTBOARD_PLAIN(sin)
OUTBOARD_PLAIN(sinh)
OUTBOARD_PLAIN(sqrt)
OUTBOARD_PLAIN(tan)
OUTBOARD_PLAIN(tanh)
OUTBOARD_PLAIN(trunc)

// ---- Two operands

OUTBOARD_POINTWISE(ufunc_add_CPU, "add.Tensor", "add_.Tensor", "add.out")
OUTBOARD_POINTWISE(sub_out, "sub.Tensor", "sub_.Tensor", "sub.out")
OUTBOARD_POINTWISE(mul_out, "mul.Tensor", "mul_.Tensor", "mul.out")
OUTBOARD_POINTWISE(div_out, "div.Tensor", "div_.Tensor", "div.out")
OUTBOARD_POINTWISE(div_out_mode, "div.Tensor_mode", "div_.Tensor_mode", "div.out_mode")
OUTBOARD_POINTWISE(pow_Tensor_Scalar_out, "pow.Tensor_Scalar", "pow_.Scalar",
                   "pow.Tensor_Scalar_out")
OUTBOARD_POINTWISE(pow_Tensor_Tensor_out, "pow.Tensor_Tensor", "pow_.Tensor",
                   "pow.Tensor_Tensor_out")
OUTBOARD_TENSOR(remainder)
OUTBOARD_TENSOR(fmod)
OUTBOARD_PLAIN(atan2)
OUTBOARD_POINTWISE_OUT_OF_PLACE(maximum_out, "maximum", "maximum.out")
OUTBOARD_POINTWISE_OUT_OF_PLACE(minimum_out, "minimum", "minimum.out")
OUTBOARD_TENSOR(bitwise_and)
OUTBOARD_TENSOR(bitwise_or)
OUTBOARD_TENSOR(bitwise_xor)

// Three operands.
OUTBOARD_PLAIN(addcmul)
OUTBOARD_PLAIN(addcdiv)
OUTBOARD_POINTWISE(lerp_Scalar, "lerp.Scalar", "lerp_.Scalar", "lerp.Scalar_out")
OUTBOARD_POINTWISE(lerp_Tensor, "lerp.Tensor", "lerp_.Tensor", "lerp.Tensor_out")

// ---- Activations, pointwise losses, and the gradients of both

OUTBOARD_PLAIN(elu)
// Functional only: PyTorch's CPU kernel leaves a given strided output unwritten. The fallback has
// the CPU's behavior.
OUTBOARD_STRUCTURED_FUNCTIONAL(PointwiseKernels<at::native::structured_gelu_out_cpu>, "gelu")
OUTBOARD_PLAIN(hardsigmoid)
OUTBOARD_PLAIN(leaky_relu)
OUTBOARD_PLAIN(mish)
OUTBOARD_PLAIN(silu)
OUTBOARD_PLAIN(threshold)
OUTBOARD_POINTWISE_OUT_OF_PLACE(softplus_out, "softplus", "softplus.out")

OUTBOARD_GRADIENT(elu)
OUTBOARD_STRUCTURED_FUNCTIONAL(PointwiseKernels<at::native::structured_gelu_backward_out_cpu>,
                               "gelu_backward")
OUTBOARD_GRADIENT(hardsigmoid)
OUTBOARD_GRADIENT(leaky_relu)
OUTBOARD_GRADIENT(sigmoid)
OUTBOARD_GRADIENT(silu)
OUTBOARD_GRADIENT(softplus)
OUTBOARD_GRADIENT(tanh)
OUTBOARD_GRADIENT(threshold)

// ---- Fused optimizers. (The `_foreach_` operators need nothing: their loops over single tensors
// reach the kernels above.)

namespace {

using OptionalTensor = const std::optional<at::Tensor>&;
using AdamSignature = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                           at::TensorList, at::TensorList, double, double, double, double, double,
                           bool, bool, OptionalTensor, OptionalTensor);
using SgdSignature = void(at::TensorList, at::TensorList, at::TensorList, double, double, double,
                          double, bool, bool, bool, OptionalTensor, OptionalTensor);
using AdagradSignature = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                              double, double, double, double, bool, OptionalTensor, OptionalTensor);

}  // namespace

OUTBOARD_NATIVE_OVERLOAD("_fused_adam_", at::native::_fused_adam_kernel_cpu_, AdamSignature)
OUTBOARD_NATIVE_OVERLOAD("_fused_adamw_", at::native::_fused_adamw_kernel_cpu_, AdamSignature)
OUTBOARD_NATIVE_OVERLOAD("_fused_sgd_", at::native::_fused_sgd_kernel_cpu_, SgdSignature)
OUTBOARD_NATIVE_OVERLOAD("_fused_adagrad_", at::native::_fused_adagrad_kernel_cpu_,
                         AdagradSignature)

}  // namespace outboard::cpu_kernels
