// Derivatives from C++: a kernel for a step of PyTorch's formula, a torch::autograd::Function that
// replaces the formula, and an operator without a derivative, which raises.
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <iostream>

namespace {

// PyTorch's formula for relu calls threshold_backward on the device.
at::Tensor threshold_backward(const at::Tensor& grad, const at::Tensor& self,
                              const at::Scalar& threshold) {
  std::cout << "  threshold_backward of the vendor" << std::endl;
  return at::where(self.gt(threshold), grad, at::zeros_like(grad));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("threshold_backward", TORCH_FN(threshold_backward));
}

// Replaces PyTorch's formula for celu: alpha * (exp(x / alpha) - 1) below zero.
struct Celu final : torch::autograd::Function<Celu> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& self,
                            double alpha) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({self});
    context->saved_data["alpha"] = alpha;
    return at::where(self.gt(0), self, (self / alpha).expm1() * alpha);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    std::cout << "  backward of the vendor's celu" << std::endl;
    const at::Tensor self = context->get_saved_variables()[0];
    const double alpha = context->saved_data["alpha"].toDouble();
    const at::Tensor slope = (self / alpha).exp();
    return {grads[0] * at::where(self.gt(0), at::ones_like(slope), slope), at::Tensor()};
  }
};

at::Tensor celu(const at::Tensor& self, const at::Scalar& alpha) {
  return Celu::apply(self, alpha.toDouble());
}

at::Tensor halve(const at::Tensor& self) { return self / 2; }

TORCH_LIBRARY(backward_example, m) { m.def("halve(Tensor x) -> Tensor"); }

TORCH_LIBRARY_IMPL(backward_example, PrivateUse1, m) { m.impl("halve", TORCH_FN(halve)); }

TORCH_LIBRARY_IMPL(backward_example, AutogradPrivateUse1, m) {
  m.impl("halve", torch::autograd::autogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("celu", TORCH_FN(celu)); }

}  // namespace
