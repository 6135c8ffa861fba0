// Reductions, softmax, losses of classification, normalization and matrix products.
#include "cpu_kernels/typed/structured.h"
#include "cpu_kernels/typed/typed_kernel.h"

namespace outboard::cpu_kernels {

// ---- Reductions and cumulative operators

OUTBOARD_ALIASED_OUT_OF_PLACE(sum_out, "sum.dim_IntList", "sum.IntList_out")
OUTBOARD_ALIASED_OUT_OF_PLACE(mean_out, "mean.dim", "mean.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(amax_out, "amax", "amax.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(amin_out, "amin", "amin.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(argmax_out, "argmax", "argmax.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(argmin_out, "argmin", "argmin.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(all_out, "all.dim", "all.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(all_all_out, "all", "all.all_out")
OUTBOARD_ALIASED_OUT_OF_PLACE(any_out, "any.dim", "any.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(any_all_out, "any", "any.all_out")
OUTBOARD_ALIASED_OUT_OF_PLACE(linalg_vector_norm_out, "linalg_vector_norm",
                              "linalg_vector_norm.out")
OUTBOARD_ALIASED(cumsum_out, "cumsum", "cumsum_", "cumsum.out")

// ---- Softmax, the losses of classification, and the gradients of both

OUTBOARD_ALIASED_OUT_OF_PLACE(softmax_cpu_out, "_softmax", "_softmax.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(log_softmax_cpu_out, "_log_softmax", "_log_softmax.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(softmax_backward_cpu_out, "_softmax_backward_data",
                              "_softmax_backward_data.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(log_softmax_backward_cpu_out, "_log_softmax_backward_data",
                              "_log_softmax_backward_data.out")
OUTBOARD_ALIASED_FUNCTIONAL(nll_loss_forward_out_cpu, "nll_loss_forward")
OUTBOARD_ALIASED_OUT_OF_PLACE(nll_loss_backward_out_cpu, "nll_loss_backward",
                              "nll_loss_backward.grad_input")

// ---- Normalization

OUTBOARD_NATIVE("native_layer_norm", at::native::layer_norm_cpu)
OUTBOARD_NATIVE("native_layer_norm_backward", at::native::layer_norm_backward_cpu)

// ---- Matrix products

OUTBOARD_ALIASED(addmm_out_cpu, "addmm", "addmm_", "addmm.out")
OUTBOARD_ALIASED(addmv_out_cpu, "addmv", "addmv_", "addmv.out")
OUTBOARD_ALIASED(baddbmm_out_cpu, "baddbmm", "baddbmm_", "baddbmm.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(bmm_out_cpu, "bmm", "bmm.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(mm_out_cpu, "mm", "mm.out")

}  // namespace outboard::cpu_kernels
