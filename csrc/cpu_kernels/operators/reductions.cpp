// Reductions and cumulative operators.
#include "cpu_kernels/typed/structured.h"

#include <ATen/ops/all_native.h>
#include <ATen/ops/amax_native.h>
#include <ATen/ops/amin_native.h>
#include <ATen/ops/any_native.h>
#include <ATen/ops/argmax_native.h>
#include <ATen/ops/argmin_native.h>
#include <ATen/ops/cumsum_native.h>
#include <ATen/ops/linalg_vector_norm_native.h>
#include <ATen/ops/mean_native.h>
#include <ATen/ops/sum_native.h>

namespace outboard::cpu_kernels {

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

}  // namespace outboard::cpu_kernels
