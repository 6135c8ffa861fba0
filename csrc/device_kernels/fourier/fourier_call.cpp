// Layouts, and the choice of the algorithm for a length.
#include "device_kernels/fourier/fourier_call.h"

#include <array>

namespace outboard {

at::Tensor FourierCall::read(const at::Tensor& source) {
  const bool is_real = !source.is_complex();
  if (!is_real && source.is_contiguous()) return source.view({-1});
  at::Tensor result = make(source.numel());
  LaunchArguments arguments;
  arguments.address(source.const_data_ptr()).address(result.mutable_data_ptr());
  const auto add = [&](auto zero) {
    std::array<decltype(zero), 1 + 2 * kFourierDimensions> layout{};
    int64_t dims = 0;
    int64_t end = 0;  // stride of the previous dimension
    for (int64_t d = 0; d < source.dim(); ++d) {
      if (source.size(d) == 1) continue;
      // Adjacent dimensions with matching strides collapse into one.
      const bool joins = dims > 0 && end == source.size(d) * source.stride(d);
      if (!joins) layout[1 + dims++] = 1;
      layout[dims] *= source.size(d);
      layout[kFourierDimensions + dims] = source.stride(d);
      end = source.stride(d);
    }
    if (dims == 0) layout[1 + dims++] = 1;
    layout[0] = dims;
    arguments.bytes(layout.data(), sizeof(layout));
  };
  wide ? add(int64_t{0}) : add(int32_t{0});
  index(arguments, result.numel());
  start(is_real ? kernels->read_real : kernels->read_complex, result.numel(), arguments);
  return result;
}

at::Tensor FourierCall::cut(const at::Tensor& source, int64_t n, int64_t kept) {
  at::Tensor result = make(source.numel() / n * kept);
  LaunchArguments arguments;
  arguments.address(source.const_data_ptr()).address(result.mutable_data_ptr());
  index(arguments, result.numel()).index(arguments, n).index(arguments, kept);
  factor(arguments, take_scale());
  start(kernels->cut, result.numel(), arguments);
  return result;
}

at::Tensor FourierCall::along(const at::Tensor& source, int64_t n, int64_t inner, bool last) {
  if (n == 1) return source;
  return fourier_radices(n).empty() ? bluestein(source, n, inner, last)
                                    : passes(source, n, inner, sign, last);
}

}  // namespace outboard
