// Steps of discrete Fourier transforms, each one or more launches.
//
// Values between steps are dense 1-d complex arrays. `scale` is applied once, by the last step of a
// transform, which reads all values anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "device_kernels/kernel_table.h"
#include "device_kernels/work_shape.h"
#include "runtime/programs/launch.h"
#include "tensors/dense.h"

namespace outboard {

// Dimension limit of kernels that read any layout.
constexpr int kFourierDimensions = 12;

// The kernels of `source` for values of dtype `real`; `wide`: 64-bit indices.
ProgramKernels make_fourier_kernels(c10::DeviceIndex device, at::ScalarType real, bool wide,
                                    const std::string& source);

// One call: kernels, and the roots of unity of each length.
struct FourierCall {
  c10::DeviceIndex device;
  at::ScalarType complex;
  at::ScalarType real;
  int32_t sign;
  double scale;  // not yet applied
  bool wide = false;
  bool vectors = false;  // explicit vectors are faster
  const ProgramKernels* kernels = nullptr;
  std::map<std::pair<int64_t, int32_t>, at::Tensor> roots;

  double take_scale() { return std::exchange(scale, 1); }

  // A dense array of `source`, which has any strides.
  at::Tensor read(const at::Tensor& source);
  // The first `count` elements of rows of length n; missing elements are the conjugates that make
  // the transform real.
  at::Tensor cut(const at::Tensor& source, int64_t n, int64_t count);
  // Transforms the dimension of length n, whose elements are `inner` apart. `last`: this step
  // applies the scale.
  at::Tensor along(const at::Tensor& source, int64_t n, int64_t inner, bool last);

  // True if real rows of length n can be transformed as complex ones of half the length.
  static bool halves(int64_t n);
  // If halves(n), the first `count` elements of the transforms of real rows of length n; and the
  // inverse, from n / 2 + 1 elements. n real values are n / 2 complex values in the same memory,
  // whose transform contains the transforms of the even and the odd elements.
  at::Tensor from_real(const at::Tensor& rows, int64_t n, int64_t count, bool last);
  at::Tensor to_real(const at::Tensor& source, int64_t n);
  // The real parts, times the unapplied `scale`.
  at::Tensor real_parts(const at::Tensor& source);

 private:
  // exp(direction * 2 pi i t / n) for t < n.
  const at::Tensor& roots_of(int64_t n, int32_t direction);
  // `along` for an n with small prime factors: a pass per radix, from one array into another.
  at::Tensor passes(at::Tensor source, int64_t n, int64_t inner, int32_t direction, bool last);
  // `along` for any n, by Bluestein's algorithm: a convolution with a chirp, computed by transforms
  // of a power of two.
  at::Tensor bluestein(const at::Tensor& source, int64_t n, int64_t inner, bool last);
  // Multiplies: rows of length `from` become rows of length `to`, with `count` elements that are
  // not 0.
  at::Tensor with_chirp(const at::Tensor& source, const at::Tensor& factors, int64_t inner,
                        int64_t from, int64_t to, int64_t count, double factor);

  at::Tensor make(int64_t elements, bool is_real = false) const {
    return empty_on(device, {elements}, is_real ? real : complex);
  }
  // Launches a kernel with these arguments.
  template <class... Values>
  void launch_kernel(const std::string& name, int64_t items, const Values&... values) const {
    LaunchArguments arguments;
    (add(arguments, values), ...);
    kernels->launch(name, items, work_shape(device).local, arguments);
  }
  // Memory, an index, a flag or a sign, a factor, a layout.
  static void add(LaunchArguments& arguments, const at::Tensor& tensor) {
    arguments.address(tensor.const_data_ptr());
  }
  void add(LaunchArguments& arguments, int64_t index) const {
    wide ? arguments.value(index) : arguments.value(static_cast<int32_t>(index));
  }
  static void add(LaunchArguments& arguments, int32_t flag) { arguments.value(flag); }
  void add(LaunchArguments& arguments, double factor) const {
    real == at::ScalarType::Double ? arguments.value(factor)
                                   : arguments.value(static_cast<float>(factor));
  }
  template <class Index, size_t n>
  static void add(LaunchArguments& arguments, const std::array<Index, n>& layout) {
    arguments.value(layout);
  }
};

}  // namespace outboard
