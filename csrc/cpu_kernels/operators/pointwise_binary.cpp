// Binary pointwise operators.
#include "cpu_kernels/typed/structured.h"

#include <ATen/ops/add_native.h>
#include <ATen/ops/addcdiv_native.h>
#include <ATen/ops/addcmul_native.h>
#include <ATen/ops/atan2_native.h>
#include <ATen/ops/bitwise_and_native.h>
#include <ATen/ops/bitwise_or_native.h>
#include <ATen/ops/bitwise_xor_native.h>
#include <ATen/ops/div_native.h>
#include <ATen/ops/fmod_native.h>
#include <ATen/ops/lerp_native.h>
#include <ATen/ops/maximum_native.h>
#include <ATen/ops/minimum_native.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/pow_native.h>
#include <ATen/ops/remainder_native.h>
#include <ATen/ops/sub_native.h>

namespace outboard::cpu_kernels {

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

}  // namespace outboard::cpu_kernels
