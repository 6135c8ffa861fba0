// Kernels behind the stubs of PyTorch's implementations, which do everything but the computation:
// broadcasting, type promotion, and the loop's sizes and strides.
#include <ATen/TensorIterator.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/abs_cpu_dispatch.h>
#include <ATen/ops/hypot_cpu_dispatch.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/neg.h>
#include <torch/library.h>

namespace {

int calls = 0;

// Operand 0 is the output, the others are the inputs. A kernel for real hardware would take
// iter.data_ptr(i), iter.strides(i) and iter.shape(), and launch a program.
void abs_kernel(at::TensorIteratorBase& iter) {
  ++calls;
  at::Tensor out(iter.output());
  const at::Tensor in(iter.input());
  at::maximum_out(out, in, at::neg(in));
}

void hypot_kernel(at::TensorIteratorBase& iter) {
  ++calls;
  at::Tensor out(iter.output());
  out.copy_((iter.input(0) * iter.input(0) + iter.input(1) * iter.input(1)).sqrt());
}

}  // namespace

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(abs_stub, &abs_kernel);
REGISTER_PRIVATEUSE1_DISPATCH(hypot_stub, &hypot_kernel);
}  // namespace at::native

// PyTorch's implementations, which call the stub for the device of their tensors. The other forms
// follow the form out=.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("abs.out", TORCH_FN(at::cpu::abs_outf));
  m.impl("hypot.out", TORCH_FN(at::cpu::hypot_outf));
}

extern "C" int stub_calls() { return calls; }
