// A vendor's fallback for all operators without a kernel for the device: it prints the operator and
// runs the CPU's kernel.
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

// For one operator of PyTorch the same function is a kernel like any other.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("erfinv", torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

}  // namespace
