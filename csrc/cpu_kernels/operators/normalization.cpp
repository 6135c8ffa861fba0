// Normalization.
#include <ATen/ops/native_layer_norm_backward_native.h>
#include <ATen/ops/native_layer_norm_native.h>

#include "cpu_kernels/typed/native.h"

namespace outboard::cpu_kernels {

OUTBOARD_NATIVE("native_layer_norm", at::native::layer_norm_cpu)
OUTBOARD_NATIVE("native_layer_norm_backward", at::native::layer_norm_backward_cpu)

}  // namespace outboard::cpu_kernels
