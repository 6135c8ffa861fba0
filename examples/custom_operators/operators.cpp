// Custom operators, with kernels for the device and three kinds of derivatives. The kernels call
// PyTorch's operators, so that they run on every device; a vendor's kernels would launch programs.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace {

TORCH_LIBRARY(custom_example, library) {
  library.def("hypotenuse(Tensor a, Tensor b) -> Tensor");
  library.def("swish(Tensor x, float beta) -> Tensor");
  library.def("swish_backward(Tensor gradient, Tensor x, float beta) -> Tensor");
  library.def("limit(Tensor x, float bound) -> Tensor");
}

// ---- Without a derivative

at::Tensor hypotenuse(const at::Tensor& a, const at::Tensor& b) { return at::sqrt(a * a + b * b); }

// Shapes only, for FakeTensor and torch.compile.
at::Tensor hypotenuse_shape(const at::Tensor& a, const at::Tensor& b) {
  return at::empty_symint(c10::SymIntArrayRef(at::infer_size_symint(a.sym_sizes(), b.sym_sizes())),
                          a.options());
}

// ---- With a backward operator, which Python connects by torch.library.register_autograd

at::Tensor swish(const at::Tensor& x, double beta) { return x * at::sigmoid(x * beta); }

at::Tensor swish_backward(const at::Tensor& gradient, const at::Tensor& x, double beta) {
  const at::Tensor s = at::sigmoid(x * beta);
  return gradient * (s + beta * x * s * (1 - s));
}

// ---- With a derivative in C++: the gradient passes unchanged

at::Tensor limit(const at::Tensor& x, double bound) { return at::clamp(x, -bound, bound); }

struct Limit : torch::autograd::Function<Limit> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x, double bound) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("custom_example::limit", "")
                               .typed<decltype(limit)>();
    return op.call(x, bound);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0], at::Tensor()};
  }
};

at::Tensor limit_autograd(const at::Tensor& x, double bound) { return Limit::apply(x, bound); }

TORCH_LIBRARY_IMPL(custom_example, PrivateUse1, library) {
  library.impl("hypotenuse", &hypotenuse);
  library.impl("swish", &swish);
  library.impl("swish_backward", &swish_backward);
  library.impl("limit", &limit);
}

TORCH_LIBRARY_IMPL(custom_example, Meta, library) {
  library.impl("hypotenuse", &hypotenuse_shape);
  library.impl("limit", [](const at::Tensor& x, double) { return at::empty_like(x); });
}

TORCH_LIBRARY_IMPL(custom_example, Autograd, library) {
  // Asking for a gradient raises, instead of returning none.
  library.impl("hypotenuse", torch::autograd::autogradNotImplementedFallback());
  library.impl("limit", &limit_autograd);
}

}  // namespace
