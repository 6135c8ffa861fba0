// Fused optimizers. (The `_foreach_` operators need nothing: their loops over single tensors reach
// the pointwise kernels.)
#include <ATen/ops/_fused_adagrad_native.h>
#include <ATen/ops/_fused_adam_native.h>
#include <ATen/ops/_fused_adamw_native.h>
#include <ATen/ops/_fused_sgd_native.h>

#include "cpu_kernels/typed/native.h"

namespace outboard::cpu_kernels {

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
