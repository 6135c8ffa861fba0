// Unary pointwise operators.
#include "cpu_kernels/typed/structured.h"

#include <ATen/ops/acos_native.h>
#include <ATen/ops/acosh_native.h>
#include <ATen/ops/asin_native.h>
#include <ATen/ops/asinh_native.h>
#include <ATen/ops/atan_native.h>
#include <ATen/ops/atanh_native.h>
#include <ATen/ops/bitwise_not_native.h>
#include <ATen/ops/ceil_native.h>
#include <ATen/ops/cos_native.h>
#include <ATen/ops/cosh_native.h>
#include <ATen/ops/erf_native.h>
#include <ATen/ops/erfc_native.h>
#include <ATen/ops/exp2_native.h>
#include <ATen/ops/exp_native.h>
#include <ATen/ops/expm1_native.h>
#include <ATen/ops/floor_native.h>
#include <ATen/ops/log10_native.h>
#include <ATen/ops/log1p_native.h>
#include <ATen/ops/log2_native.h>
#include <ATen/ops/log_native.h>
#include <ATen/ops/neg_native.h>
#include <ATen/ops/reciprocal_native.h>
#include <ATen/ops/round_native.h>
#include <ATen/ops/rsqrt_native.h>
#include <ATen/ops/sigmoid_native.h>
#include <ATen/ops/sign_native.h>
#include <ATen/ops/sin_native.h>
#include <ATen/ops/sinh_native.h>
#include <ATen/ops/sqrt_native.h>
#include <ATen/ops/tan_native.h>
#include <ATen/ops/tanh_native.h>
#include <ATen/ops/trunc_native.h>

namespace outboard::cpu_kernels {

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

}  // namespace outboard::cpu_kernels
