// The out= form of a structured operator: the only form of `add` that a backend must write.
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <torch/library.h>

namespace {

// PyTorch has checked the arguments, and `out` has the size and the dtype of the result.
at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha,
                    at::Tensor& out) {
  // A kernel for real hardware would launch a program here.
  return at::sub_out(out, self, other, -alpha);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("add.out", TORCH_FN(add_out)); }

}  // namespace
