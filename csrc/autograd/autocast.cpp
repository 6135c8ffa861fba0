// Automatic mixed precision: which operators run in lower precision, in float32, or in the widest
// dtype of their arguments. The lists and the casts are PyTorch's; this file applies them to the
// device.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "torch_version.h"

namespace outboard {
namespace {

// PyTorch's lists name these without their namespace.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

Tensor refuse_binary_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&,
                                   int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
              "autocast: the gradient of a low-precision sigmoid's logarithm is lost; use "
              "binary_cross_entropy_with_logits or BCEWithLogitsLoss without the sigmoid layer");
}

// All operators without a policy run with the dtypes they are given.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

#define OUTBOARD_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define OUTBOARD_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define OUTBOARD_FLOAT32_RESULT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define OUTBOARD_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(OUTBOARD_LOWER_PRECISION)
  AT_FORALL_FP32(OUTBOARD_FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(OUTBOARD_FLOAT32_RESULT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(OUTBOARD_PROMOTE)
  m.impl("binary_cross_entropy", TORCH_FN(refuse_binary_cross_entropy));
}

#undef OUTBOARD_LOWER_PRECISION
#undef OUTBOARD_FLOAT32
#undef OUTBOARD_FLOAT32_RESULT
#undef OUTBOARD_PROMOTE

}  // namespace
}  // namespace outboard
