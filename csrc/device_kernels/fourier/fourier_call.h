// One call of `fourier`: the steps of transforms, each one or more launches.
//
//   fourier_call.cpp        layouts, and the choice of the algorithm for a length
//   fourier_passes.cpp      lengths with small prime factors
//   fourier_bluestein.cpp   lengths with large prime factors
//   fourier_real.cpp        real values as complex values of half the length
//
// Values between steps are dense 1-d complex arrays. `scale` is applied once, by the last step of a
// transform, which reads all values anyway.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <map>
#include <utility>

#include "tensors/dense.h"
#include "device_kernels/fourier/fourier_kernels.h"
#include "device_kernels/work_shape.h"
#include "runtime/programs/launch.h"

namespace outboard {

// Radices of the passes for length n, in order; empty if a prime factor is too large for a pass.
c10::SmallVector<int64_t, 16> fourier_radices(int64_t n);

// Shared by the steps: kernels, and the roots of unity of each length.
struct FourierCall {
  c10::DeviceIndex device;
  at::ScalarType complex;
  at::ScalarType real;
  int sign;
  double scale;  // not yet applied
  bool wide = false;
  bool vectors = false;  // explicit vectors are faster
  const FourierKernels* kernels = nullptr;
  std::map<std::pair<int64_t, int>, at::Tensor> roots;

  at::Tensor make(int64_t elements, bool is_real = false) const {
    return empty_on(device, {elements}, is_real ? real : complex);
  }
  FourierCall& index(LaunchArguments& arguments, int64_t value) {
    wide ? arguments.value(value) : arguments.value(static_cast<int32_t>(value));
    return *this;
  }
  FourierCall& factor(LaunchArguments& arguments, double value) {
    real == at::ScalarType::Double ? arguments.value(value)
                                   : arguments.value(static_cast<float>(value));
    return *this;
  }
  void start(Kernel* kernel, int64_t items, const LaunchArguments& arguments) const {
    launch(current_stream_state(device), *kernel,
           Grid::linear(static_cast<uint64_t>(items), work_shape(device).local), arguments);
  }
  double take_scale() {
    const double taken = scale;
    scale = 1;
    return taken;
  }

  // ---- fourier_call.cpp

  // A dense array [items] of `source`, which has any strides.
  at::Tensor read(const at::Tensor& source);
  // The first `kept` elements of rows of length n; missing elements are the conjugates that make
  // the transform real.
  at::Tensor cut(const at::Tensor& source, int64_t n, int64_t kept);
  // Transforms the dimension of length n, whose elements are `inner` apart. `last`: this step
  // applies the scale.
  at::Tensor along(const at::Tensor& source, int64_t n, int64_t inner, bool last);

  // ---- fourier_passes.cpp

  // exp(direction * 2 pi i t / n) for t < n.
  const at::Tensor& roots_of(int64_t n, int direction);
  // Likewise, for an n that has radices.
  at::Tensor passes(at::Tensor source, int64_t n, int64_t inner, int direction, bool last);

  // ---- fourier_bluestein.cpp

  // Likewise, for any n.
  at::Tensor bluestein(const at::Tensor& source, int64_t n, int64_t inner, bool last);
  // Multiplies: rows of length `from` become rows of length `to`, with `count` elements that are
  // not 0.
  at::Tensor with_chirp(const at::Tensor& source, const at::Tensor& factors, int64_t inner,
                        int64_t from, int64_t to, int64_t count, double factor_);

  // ---- fourier_real.cpp

  // True if real rows of length n can be transformed as complex ones of half the length.
  static bool halves(int64_t n);
  // The first `kept` elements of the transforms of real rows of length n, if halves(n); and the
  // inverse, from n / 2 + 1 elements.
  at::Tensor from_real(const at::Tensor& rows, int64_t n, int64_t kept, bool last);
  at::Tensor to_real(const at::Tensor& source, int64_t n);
  // The real parts, times the unapplied `scale`.
  at::Tensor real_parts(const at::Tensor& source);
};

}  // namespace outboard
