// A vendor's own fallback for all operators of the device that have no kernel: it says so, and runs
// the CPU's.
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <iostream>

namespace {

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  std::cout << "  the vendor's fallback runs " << op.schema().name() << std::endl;
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

// For one operator of PyTorch's it is a kernel like any other.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("erfinv", torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

}  // namespace
