// Activations, pointwise losses, and the gradients of both.
#include "cpu_kernels/typed/structured.h"

#include <ATen/ops/elu_backward_native.h>
#include <ATen/ops/elu_native.h>
#include <ATen/ops/gelu_backward_native.h>
#include <ATen/ops/gelu_native.h>
#include <ATen/ops/hardsigmoid_backward_native.h>
#include <ATen/ops/hardsigmoid_native.h>
#include <ATen/ops/leaky_relu_backward_native.h>
#include <ATen/ops/leaky_relu_native.h>
#include <ATen/ops/mish_native.h>
#include <ATen/ops/mse_loss_native.h>
#include <ATen/ops/sigmoid_backward_native.h>
#include <ATen/ops/silu_backward_native.h>
#include <ATen/ops/silu_native.h>
#include <ATen/ops/softplus_backward_native.h>
#include <ATen/ops/softplus_native.h>
#include <ATen/ops/tanh_backward_native.h>
#include <ATen/ops/threshold_backward_native.h>
#include <ATen/ops/threshold_native.h>

namespace outboard::cpu_kernels {

OUTBOARD_POINTWISE(elu_out, "elu", "elu_", "elu.out")
// Functional only: PyTorch's CPU kernel leaves a given strided output unwritten, and the fallback
// does whatever the CPU does.
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

}  // namespace outboard::cpu_kernels
