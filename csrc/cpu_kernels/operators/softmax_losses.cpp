// Softmax, the losses of classification, and the gradients of both.
#include "cpu_kernels/typed/structured.h"

#include <ATen/ops/_log_softmax_backward_data_native.h>
#include <ATen/ops/_log_softmax_native.h>
#include <ATen/ops/_softmax_backward_data_native.h>
#include <ATen/ops/_softmax_native.h>
#include <ATen/ops/nll_loss_backward_native.h>
#include <ATen/ops/nll_loss_forward_native.h>

namespace outboard::cpu_kernels {

OUTBOARD_ALIASED_OUT_OF_PLACE(softmax_cpu_out, "_softmax", "_softmax.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(log_softmax_cpu_out, "_log_softmax", "_log_softmax.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(softmax_backward_cpu_out, "_softmax_backward_data",
                              "_softmax_backward_data.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(log_softmax_backward_cpu_out, "_log_softmax_backward_data",
                              "_log_softmax_backward_data.out")
OUTBOARD_ALIASED_FUNCTIONAL(nll_loss_forward_out_cpu, "nll_loss_forward")
OUTBOARD_ALIASED_OUT_OF_PLACE(nll_loss_backward_out_cpu, "nll_loss_backward",
                              "nll_loss_backward.grad_input")

}  // namespace outboard::cpu_kernels
