// Matrix products.
#include "cpu_kernels/typed/structured.h"

#include <ATen/ops/addmm_native.h>
#include <ATen/ops/addmv_native.h>
#include <ATen/ops/baddbmm_native.h>
#include <ATen/ops/bmm_native.h>
#include <ATen/ops/mm_native.h>

namespace outboard::cpu_kernels {

OUTBOARD_ALIASED(addmm_out_cpu, "addmm", "addmm_", "addmm.out")
OUTBOARD_ALIASED(addmv_out_cpu, "addmv", "addmv_", "addmv.out")
OUTBOARD_ALIASED(baddbmm_out_cpu, "baddbmm", "baddbmm_", "baddbmm.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(bmm_out_cpu, "bmm", "bmm.out")
OUTBOARD_ALIASED_OUT_OF_PLACE(mm_out_cpu, "mm", "mm.out")

}  // namespace outboard::cpu_kernels
