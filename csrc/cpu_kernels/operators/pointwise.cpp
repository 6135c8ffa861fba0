// Pointwise operators.
#include <ATen/ops/_fused_adagrad_native.h>
#include <ATen/ops/_fused_adam_native.h>
#include <ATen/ops/_fused_adamw_native.h>
#include <ATen/ops/_fused_sgd_native.h>
#include <ATen/ops/acos_native.h>
#include <ATen/ops/acosh_native.h>
#include <ATen/ops/add_native.h>
#include <ATen/ops/addcdiv_native.h>
#include <ATen/ops/addcmul_native.h>
#include <ATen/ops/asin_native.h>
#include <ATen/ops/asinh_native.h>
#include <ATen/ops/atan2_native.h>
#include <ATen/ops/atan_native.h>
#include <ATen/ops/atanh_native.h>
#include <ATen/ops/bitwise_and_native.h>
#include <ATen/ops/bitwise_not_native.h>
#include <ATen/ops/bitwise_or_native.h>
#include <ATen/ops/bitwise_xor_native.h>
#include <ATen/ops/ceil_native.h>
#include <ATen/ops/cos_native.h>
#include <ATen/ops/cosh_native.h>
#include <ATen/ops/div_native.h>
#include <ATen/ops/elu_backward_native.h>
#include <ATen/ops/elu_native.h>
#include <ATen/ops/erf_native.h>
#include <ATen/ops/erfc_native.h>
#include <ATen/ops/exp2_native.h>
#include <ATen/ops/exp_native.h>
#include <ATen/ops/expm1_native.h>
#include <ATen/ops/floor_native.h>
#include <ATen/ops/fmod_native.h>
#include <ATen/ops/gelu_backward_native.h>
#include <ATen/ops/gelu_native.h>
#include <ATen/ops/hardsigmoid_backward_native.h>
#include <ATen/ops/hardsigmoid_native.h>
#include <ATen/ops/leaky_relu_backward_native.h>
#include <ATen/ops/leaky_relu_native.h>
#include <ATen/ops/lerp_native.h>
#include <ATen/ops/log10_native.h>
#include <ATen/ops/log1p_native.h>
#include <ATen/ops/log2_native.h>
#include <ATen/ops/log_native.h>
#include <ATen/ops/maximum_native.h>
#include <ATen/ops/minimum_native.h>
#include <ATen/ops/mish_native.h>
#include <ATen/ops/mse_loss_native.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/neg_native.h>
#include <ATen/ops/pow_native.h>
#include <ATen/ops/reciprocal_native.h>
#include <ATen/ops/remainder_native.h>
#include <ATen/ops/round_native.h>
#include <ATen/ops/rsqrt_native.h>
#include <ATen/ops/sigmoid_backward_native.h>
#include <ATen/ops/sigmoid_native.h>
#include <ATen/ops/sign_native.h>
#include <ATen/ops/silu_backward_native.h>
#include <ATen/ops/silu_native.h>
#include <ATen/ops/sin_native.h>
#include <ATen/ops/sinh_native.h>
#include <ATen/ops/softplus_backward_native.h>
#include <ATen/ops/softplus_native.h>
#include <ATen/ops/sqrt_native.h>
#include <ATen/ops/sub_native.h>
#include <ATen/ops/tan_native.h>
#include <ATen/ops/tanh_backward_native.h>
#include <ATen/ops/tanh_native.h>
#include <ATen/ops/threshold_backward_native.h>
#include <ATen/ops/threshold_native.h>
#include <ATen/ops/trunc_native.h>

#include "cpu_kernels/typed/structured.h"
#include "cpu_kernels/typed/typed_kernel.h"

namespace outboard::cpu_kernels {

// ---- One operand

OUTBOARD_POINTWISE(acos_out, "acos", "acos_", "acos.out")
OUTBOARD_POINTWISE(acosh_out, "acosh", "acosh_", "acosh.out")
OUTBOARD_POINTWISE(asin_out, "asin", "asin_", "asin.out")
OUTBOARD_POINTWISE(asinh_out, "asinh", "asinh_", "asinh.out")
OUTBOARD_POINTWISE(atan_out, "atan", "atan_", "atan.out")
OUTBOARD_POINTWISE(atanh_out, "atanh", "atanh_", "atanh.out")
OUTBOARD_POINTWISE(bitwise_not_out, "bitwise_not", "bitwise_not_", "bitwise_not.out")
OUTBOARD_POINTWISE(ceil_out, "ceil", "ceil_", "ceil.out")
OUTBOARD_POINTWISE(cos_out, "cos", "cos_", "cos.out")
OUTBOARD_POINTWISE(cosh_out, "cosh", "cosh_", "cosh.out")
OUTBOARD_POINTWISE(erf_out, "erf", "erf_", "erf.out")
OUTBOARD_POINTWISE(erfc_out, "erfc", "erfc_", "erfc.out")
OUTBOARD_POINTWISE(exp2_out, "exp2", "exp2_", "exp2.out")
OUTBOARD_POINTWISE(exp_out, "exp", "exp_", "exp.out")
OUTBOARD_POINTWISE(expm1_out, "expm1", "expm1_", "expm1.out")
OUTBOARD_POINTWISE(floor_out, "floor", "floor_", "floor.out")
OUTBOARD_POINTWISE(log10_out, "log10", "log10_", "log10.out")
OUTBOARD_POINTWISE(log1p_out, "log1p", "log1p_", "log1p.out")
OUTBOARD_POINTWISE(log2_out, "log2", "log2_", "log2.out")
OUTBOARD_POINTWISE(log_out, "log", "log_", "log.out")
OUTBOARD_POINTWISE(neg_out, "neg", "neg_", "neg.out")
OUTBOARD_POINTWISE(reciprocal_out, "reciprocal", "reciprocal_", "reciprocal.out")
OUTBOARD_POINTWISE(round_out, "round", "round_", "round.out")
OUTBOARD_POINTWISE(rsqrt_out, "rsqrt", "rsqrt_", "rsqrt.out")
OUTBOARD_POINTWISE(sigmoid_out, "sigmoid", "sigmoid_", "sigmoid.out")
OUTBOARD_POINTWISE(sign_out, "sign", "sign_", "sign.out")
OUTBOARD_POINTWISE(sin_out, "sin", "sin_", "sin.out")
OUTBOARD_POINTWISE(sinh_out, "sinh", "sinh_", "sinh.out")
OUTBOARD_POINTWISE(sqrt_out, "sqrt", "sqrt_", "sqrt.out")
OUTBOARD_POINTWISE(tan_out, "tan", "tan_", "tan.out")
OUTBOARD_POINTWISE(tanh_out, "tanh", "tanh_", "tanh.out")
OUTBOARD_POINTWISE(trunc_out, "trunc", "trunc_", "trunc.out")

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
OUTBOARD_POINTWISE(remainder_out, "remainder.Tensor", "remainder_.Tensor", "remainder.Tensor_out")
OUTBOARD_POINTWISE(fmod_out, "fmod.Tensor", "fmod_.Tensor", "fmod.Tensor_out")
OUTBOARD_POINTWISE(atan2_out, "atan2", "atan2_", "atan2.out")
OUTBOARD_POINTWISE_OUT_OF_PLACE(maximum_out, "maximum", "maximum.out")
OUTBOARD_POINTWISE_OUT_OF_PLACE(minimum_out, "minimum", "minimum.out")
OUTBOARD_POINTWISE(bitwise_and_out, "bitwise_and.Tensor", "bitwise_and_.Tensor",
                   "bitwise_and.Tensor_out")
OUTBOARD_POINTWISE(bitwise_or_out, "bitwise_or.Tensor", "bitwise_or_.Tensor",
                   "bitwise_or.Tensor_out")
OUTBOARD_POINTWISE(bitwise_xor_out, "bitwise_xor.Tensor", "bitwise_xor_.Tensor",
                   "bitwise_xor.Tensor_out")

// Three operands.
OUTBOARD_POINTWISE(addcmul_out, "addcmul", "addcmul_", "addcmul.out")
OUTBOARD_POINTWISE(addcdiv_out, "addcdiv", "addcdiv_", "addcdiv.out")
OUTBOARD_POINTWISE(lerp_Scalar, "lerp.Scalar", "lerp_.Scalar", "lerp.Scalar_out")
OUTBOARD_POINTWISE(lerp_Tensor, "lerp.Tensor", "lerp_.Tensor", "lerp.Tensor_out")

// ---- Activations, pointwise losses, and the gradients of both

OUTBOARD_POINTWISE(elu_out, "elu", "elu_", "elu.out")
// Functional only: PyTorch's CPU kernel leaves a given strided output unwritten. The fallback has
// the CPU's behavior.
OUTBOARD_STRUCTURED_FUNCTIONAL(PointwiseKernels<at::native::structured_gelu_out_cpu>, "gelu")
OUTBOARD_POINTWISE(hardsigmoid_out, "hardsigmoid", "hardsigmoid_", "hardsigmoid.out")
OUTBOARD_POINTWISE(leaky_relu_out, "leaky_relu", "leaky_relu_", "leaky_relu.out")
OUTBOARD_POINTWISE(mish_out, "mish", "mish_", "mish.out")
OUTBOARD_POINTWISE(silu_out, "silu", "silu_", "silu.out")
OUTBOARD_POINTWISE(threshold_out, "threshold", "threshold_", "threshold.out")
OUTBOARD_POINTWISE_OUT_OF_PLACE(softplus_out, "softplus", "softplus.out")

OUTBOARD_POINTWISE_OUT_OF_PLACE(elu_backward_out, "elu_backward", "elu_backward.grad_input")
OUTBOARD_STRUCTURED_FUNCTIONAL(PointwiseKernels<at::native::structured_gelu_backward_out_cpu>,
                               "gelu_backward")
OUTBOARD_POINTWISE_OUT_OF_PLACE(hardsigmoid_backward_out, "hardsigmoid_backward",
                                "hardsigmoid_backward.grad_input")
OUTBOARD_POINTWISE_OUT_OF_PLACE(leaky_relu_backward_out, "leaky_relu_backward",
                                "leaky_relu_backward.grad_input")
OUTBOARD_POINTWISE_OUT_OF_PLACE(sigmoid_backward_out, "sigmoid_backward",
                                "sigmoid_backward.grad_input")
OUTBOARD_POINTWISE_OUT_OF_PLACE(silu_backward_out, "silu_backward", "silu_backward.grad_input")
OUTBOARD_POINTWISE_OUT_OF_PLACE(softplus_backward_out, "softplus_backward",
                                "softplus_backward.grad_input")
OUTBOARD_POINTWISE_OUT_OF_PLACE(tanh_backward_out, "tanh_backward", "tanh_backward.grad_input")
OUTBOARD_POINTWISE_OUT_OF_PLACE(threshold_backward_out, "threshold_backward",
                                "threshold_backward.grad_input")

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
