// Real transforms: n real values are n / 2 complex values in the same memory, whose transform
// contains the transforms of the even and the odd elements.
#include "device_kernels/fourier/fourier_call.h"

namespace outboard {

namespace {

// A dense array, reinterpreted as another dtype.
at::Tensor seen_as(const at::Tensor& dense, at::ScalarType dtype) {
  const auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(dense.storage()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
  const auto here = static_cast<int64_t>(dense.element_size());
  result.unsafeGetTensorImpl()->set_sizes_contiguous({dense.numel() * here / bytes});
  result.unsafeGetTensorImpl()->set_storage_offset(dense.storage_offset() * here / bytes);
  return result;
}

}  // namespace

bool FourierCall::halves(int64_t n) {
  return n % 2 == 0 && n >= 4 && !fourier_radices(n / 2).empty();
}

at::Tensor FourierCall::from_real(const at::Tensor& rows, int64_t n, int64_t kept, bool last) {
  const at::Tensor data = passes(seen_as(rows, complex), n / 2, 1, sign, /*last=*/false);
  at::Tensor result = make(rows.numel() / n * kept);
  LaunchArguments arguments;
  arguments.address(data.const_data_ptr())
      .address(result.mutable_data_ptr())
      .address(roots_of(n, sign).const_data_ptr());
  index(arguments, result.numel()).index(arguments, n).index(arguments, kept);
  factor(arguments, last ? take_scale() : 1);
  start(kernels->untangle, result.numel(), arguments);
  return result;
}

at::Tensor FourierCall::to_real(const at::Tensor& source, int64_t n) {
  at::Tensor data = make(source.numel() / (n / 2 + 1) * (n / 2));
  LaunchArguments arguments;
  arguments.address(source.const_data_ptr())
      .address(data.mutable_data_ptr())
      .address(roots_of(n, sign).const_data_ptr());
  index(arguments, data.numel()).index(arguments, n);
  start(kernels->tangle, data.numel(), arguments);
  return seen_as(passes(data, n / 2, 1, sign, /*last=*/true), real);
}

at::Tensor FourierCall::real_parts(const at::Tensor& source) {
  at::Tensor result = make(source.numel(), /*is_real=*/true);
  LaunchArguments arguments;
  arguments.address(source.const_data_ptr()).address(result.mutable_data_ptr());
  index(arguments, result.numel()).factor(arguments, take_scale());
  start(kernels->real_parts, result.numel(), arguments);
  return result;
}

}  // namespace outboard
