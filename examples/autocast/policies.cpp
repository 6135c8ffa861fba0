// A vendor's policies for autocast: one of PyTorch's operators gets a policy, and so does an
// custom operator of the vendor.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace {

// PyTorch's lists do not name it.
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m){KERNEL_PRIVATEUSEONE(erf, fp32)}

// Operators without a policy run with the dtypes of their arguments. torch_outboard registers this
// fallback where no extension does.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

at::Tensor scaled_product(const at::Tensor& a, const at::Tensor& b, double scale) {
  return at::mul(at::matmul(a, b), scale);
}

// The macros support PyTorch's operators alone. For others the cast is a function that calls the
// operator again, with autocast off.
at::Tensor scaled_product_autocast(const at::Tensor& a, const at::Tensor& b, double scale) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  constexpr c10::DeviceType device = c10::DeviceType::PrivateUse1;
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(device);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("autocast_example::scaled_product", "")
                             .typed<decltype(scaled_product)>();
  // A weight is cast once, until the outermost region ends.
  return op.call(at::autocast::cached_cast(dtype, a, device),
                 at::autocast::cached_cast(dtype, b, device), scale);
}

TORCH_LIBRARY(autocast_example, library) {
  library.def("scaled_product(Tensor a, Tensor b, float scale) -> Tensor");
  library.def("mean_square(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(autocast_example, CompositeImplicitAutograd, library) {
  library.impl("scaled_product", &scaled_product);
  library.impl("mean_square", [](const at::Tensor& x) { return x.square().mean(); });
}

TORCH_LIBRARY_IMPL(autocast_example, AutocastPrivateUse1, library) {
  library.impl("scaled_product", &scaled_product_autocast);
}

}  // namespace
