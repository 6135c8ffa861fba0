// Transforms of lengths with small factors: one pass per radix, each from one array into another.
#include "device_kernels/fourier/fourier_call.h"

namespace outboard {
namespace {

// Above this prime factor Bluestein's algorithm needs fewer operations.
constexpr int64_t kLargestRadix = 61;

}  // namespace

c10::SmallVector<int64_t, 16> fourier_radices(int64_t n) {
  c10::SmallVector<int64_t, 16> radices;
  for (const int64_t radix : {8, 4, 2, 5, 3}) {
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  }
  for (int64_t radix = 7; n > 1 && radix <= kLargestRadix; radix += 2) {
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  }
  if (n > 1) radices.clear();
  return radices;
}

const at::Tensor& FourierCall::roots_of(int64_t n, int direction) {
  at::Tensor& table = roots[{n, direction}];
  if (!table.defined()) {
    table = make(n);
    LaunchArguments arguments;
    arguments.address(table.mutable_data_ptr());
    index(arguments, n);
    arguments.value(static_cast<int32_t>(direction));
    start(kernels->make_roots, n, arguments);
  }
  return table;
}

at::Tensor FourierCall::passes(at::Tensor source, int64_t n, int64_t inner, int direction,
                               bool last) {
  const auto radices = fourier_radices(n);
  const at::Tensor table = roots_of(n, direction);
  const int64_t lanes = fourier_lanes(real);
  int64_t s = inner;
  int64_t m = n;
  for (size_t i = 0; i < radices.size(); ++i) {
    const int64_t radix = radices[i];
    m /= radix;
    at::Tensor result = make(source.numel());
    const bool any = kernels->passes.count(radix) == 0;
    Kernel* kernel = any ? kernels->pass_any : kernels->passes.at(radix);
    int64_t items = any ? source.numel() : source.numel() / radix;
    if (vectors && kernels->lanes_passes.count(radix) != 0) {
      const bool first = s == 1 && m % lanes == 0;
      if (first || s % lanes == 0) {
        kernel = (first ? kernels->first_passes : kernels->lanes_passes).at(radix);
        items /= lanes;
      }
    }
    LaunchArguments arguments;
    arguments.address(source.const_data_ptr())
        .address(result.mutable_data_ptr())
        .address(table.const_data_ptr());
    index(arguments, items).index(arguments, s).index(arguments, m);
    index(arguments, n / (m * radix));
    arguments.value(static_cast<int32_t>(direction));
    factor(arguments, last && i + 1 == radices.size() ? take_scale() : 1);
    if (any) index(arguments, radix);
    start(kernel, items, arguments);
    s *= radix;
    source = std::move(result);
  }
  return source;
}

}  // namespace outboard
