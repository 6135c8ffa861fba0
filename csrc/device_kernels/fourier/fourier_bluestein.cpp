// Bluestein's algorithm: a transform of any length as a convolution with a chirp, computed by
// transforms of a power of two.
#include "device_kernels/fourier/fourier_call.h"

namespace outboard {

at::Tensor FourierCall::with_chirp(const at::Tensor& source, const at::Tensor& factors,
                                   int64_t inner, int64_t from, int64_t to, int64_t count,
                                   double factor_) {
  at::Tensor result = make(source.numel() / from * to);
  LaunchArguments arguments;
  arguments.address(source.const_data_ptr())
      .address(result.mutable_data_ptr())
      .address(factors.const_data_ptr());
  index(arguments, result.numel()).index(arguments, inner).index(arguments, from);
  index(arguments, to).index(arguments, count).factor(arguments, factor_);
  start(kernels->with_chirp, result.numel(), arguments);
  return result;
}

at::Tensor FourierCall::bluestein(const at::Tensor& source, int64_t n, int64_t inner, bool last) {
  int64_t length = 1;
  while (length < 2 * n - 1) length *= 2;
  const at::Tensor chirp = make(n);
  LaunchArguments of_chirp;
  of_chirp.address(chirp.mutable_data_ptr());
  index(of_chirp, n);
  of_chirp.value(static_cast<int32_t>(sign));
  start(kernels->make_chirp, n, of_chirp);

  at::Tensor factors = make(length);
  LaunchArguments of_ends;
  of_ends.address(chirp.const_data_ptr()).address(factors.mutable_data_ptr());
  index(of_ends, n).index(of_ends, length);
  start(kernels->chirp_ends, length, of_ends);
  factors = passes(factors, length, 1, -1, /*last=*/false);

  at::Tensor data = with_chirp(source, chirp, inner, n, length, n, 1);
  data = passes(data, length, inner, -1, /*last=*/false);
  data = with_chirp(data, factors, inner, length, length, length, 1);
  data = passes(data, length, inner, 1, /*last=*/false);
  const double factor_ = (last ? take_scale() : 1) / static_cast<double>(length);
  return with_chirp(data, chirp, inner, length, n, n, factor_);
}

}  // namespace outboard
