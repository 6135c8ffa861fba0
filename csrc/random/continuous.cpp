// uniform_, normal_, normal, exponential_, cauchy_, log_normal_ and geometric_.
#include <ATen/Dispatch.h>
#include <ATen/native/DistributionTemplates.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "dispatch/router.h"
#include "random/cpu_random.h"
#include "random/distributions.h"

namespace outboard::random {
namespace {

// Fills a device tensor of a floating-point dtype: `float_values` (words, rounded, count, float*),
// or for float64 `double_values` (words, rounded, count, double*).
template <class FloatValues, class DoubleValues>
void fill_on_device(const at::Tensor& self, const OptionalGenerator& generator,
                    const FloatValues& float_values, const DoubleValues& double_values) {
  draw_into(self, generator, [&](const at::Tensor& host, const PhiloxState& state) {
    if (host.scalar_type() == at::kDouble) {
      fill<2, double>(host, state, double_values);
    } else {
      fill<1, float>(host, state, float_values);
    }
  });
}

// Values of 64-bit draws, by a function of one draw.
template <class Value>
auto of_draws(const Value& value) {
  return [value](const uint32_t* words, int64_t, int64_t count, double* values) {
    for (int64_t i = 0; i < count; ++i) values[i] = value(draw_64(words, i));
  };
}

// The next value of T below `value`.
template <class T>
T next_below(T value) {
  if constexpr (sizeof(T) == 2) {
    if (value == T(0)) return -std::numeric_limits<T>::denorm_min();
    value.x = static_cast<uint16_t>(value.x + (value > T(0) ? -1 : 1));
    return value;
  } else {
    return std::nextafter(value, -std::numeric_limits<T>::infinity());
  }
}

template <class>
struct UniformKernel {
  void operator()(at::TensorIteratorBase& iter, double from, double to,
                  const OptionalGenerator& generator) const {
    // Rounding must reach neither `to` nor the dtype's rounded `to`: values are limited to the
    // largest one below.
    double low = 0;
    double high = 0;
    double largest = 0;
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kHalf, at::kBFloat16, iter.dtype(), "uniform_kernel_cpu", [&] {
          low = static_cast<double>(static_cast<scalar_t>(from));
          high = static_cast<double>(static_cast<scalar_t>(to));
          largest = low < high ? static_cast<double>(next_below(static_cast<scalar_t>(to))) : low;
        });
    fill_on_device(
        iter.tensor(0), generator,
        [&](const uint32_t* words, int64_t rounded, int64_t, float* values) {
          uniform_values(words, rounded, static_cast<float>(high - low), static_cast<float>(low),
                         static_cast<float>(largest), values);
        },
        of_draws([=](uint64_t draw) {
          return std::min(unit_double(draw) * (high - low) + low, largest);
        }));
  }
};

// values[0 .. count): standard normals; `count` is rounded up to even.
void standard_normals(const uint32_t* words, int64_t count, double* values) {
  for (int64_t i = 0; i < count; i += 2) {
    const double2 pair = normals_double(draw_64(words, i), draw_64(words, i + 1));
    values[i] = pair.x;
    values[i + 1] = pair.y;
  }
}

// finish(normal * std + mean)
template <class Finish>
void fill_normals(const at::Tensor& self, double mean, double std,
                  const OptionalGenerator& generator, const Finish& finish) {
  fill_on_device(
      self, generator,
      [&](const uint32_t* words, int64_t rounded, int64_t count, float* values) {
        normal_values(words, rounded, static_cast<float>(std), static_cast<float>(mean), values);
        for (int64_t i = 0; i < count; ++i) values[i] = finish(values[i]);
      },
      [&](const uint32_t* words, int64_t, int64_t count, double* values) {
        standard_normals(words, count, values);
        for (int64_t i = 0; i < count; ++i) values[i] = finish(values[i] * std + mean);
      });
}

template <class>
struct NormalKernel {
  void operator()(at::Tensor& self, double mean, double std,
                  const OptionalGenerator& generator) const {
    check_floating(self, "normal_kernel_cpu");
    at::assert_no_internal_overlap(self);
    fill_normals(self, mean, std, generator, [](auto value) { return value; });
  }
};

template <class>
struct LogNormalKernel {
  void operator()(at::TensorIteratorBase& iter, double mean, double std,
                  const OptionalGenerator& generator) const {
    check_floating(iter.tensor(0), "log_normal_cpu");
    fill_normals(iter.tensor(0), mean, std, generator, [](auto value) { return std::exp(value); });
  }
};

template <class>
struct ExponentialKernel {
  void operator()(at::TensorIteratorBase& iter, double lambda,
                  const OptionalGenerator& generator) const {
    // The distribution excludes 0, so small values must not underflow to it in the dtype. Only an
    // infinite rate gives 0.
    const double scale = 1.0 / lambda;
    double smallest = 0;
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, iter.dtype(), "exponential_cpu", [&] {
      if (scale > 0) smallest = static_cast<double>(std::numeric_limits<scalar_t>::min());
    });
    fill_on_device(
        iter.tensor(0), generator,
        [&](const uint32_t* words, int64_t rounded, int64_t, float* values) {
          exponential_values(words, rounded, static_cast<float>(scale),
                             static_cast<float>(smallest), values);
        },
        of_draws(
            [=](uint64_t draw) { return std::max(exponential_double(draw) * scale, smallest); }));
  }
};

template <class>
struct CauchyKernel {
  void operator()(at::TensorIteratorBase& iter, double median, double sigma,
                  const OptionalGenerator& generator) const {
    check_floating(iter.tensor(0), "cauchy_cpu");
    fill_on_device(
        iter.tensor(0), generator,
        [&](const uint32_t* words, int64_t rounded, int64_t, float* values) {
          cauchy_values(words, rounded, static_cast<float>(sigma), static_cast<float>(median),
                        values);
        },
        of_draws([=](uint64_t draw) { return cauchy_double(draw) * sigma + median; }));
  }
};

template <class>
struct GeometricKernel {
  void operator()(at::TensorIteratorBase& iter, double p,
                  const OptionalGenerator& generator) const {
    // Conversions of larger numbers to integers are undefined.
    float largest = INFINITY;
    AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, iter.dtype(), "geometric_cpu", [&] {
      if constexpr (std::is_integral_v<scalar_t>) {
        largest = static_cast<float>(std::numeric_limits<scalar_t>::max());
        if (std::numeric_limits<scalar_t>::digits > 24) largest = std::nextafter(largest, 0.0f);
      }
    });
    const double scale = -1.0 / std::log1p(-p);
    fill_on_device(
        iter.tensor(0), generator,
        [&](const uint32_t* words, int64_t rounded, int64_t, float* values) {
          geometric_values(words, rounded, static_cast<float>(scale), largest, values);
        },
        of_draws([=](uint64_t draw) {
          return std::max(std::ceil(exponential_double(draw) * scale), 1.0);
        }));
  }
};

namespace templates = at::native::templates;

at::Tensor& uniform_(at::Tensor& self, double from, double to, OptionalGenerator generator) {
  return templates::uniform_impl_<UniformKernel, void>(self, from, to, std::move(generator));
}
at::Tensor& normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  return templates::normal_impl_<NormalKernel, void>(self, mean, std, std::move(generator));
}
at::Tensor& log_normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  return templates::log_normal_impl_<LogNormalKernel, void>(self, mean, std, std::move(generator));
}
at::Tensor& exponential_(at::Tensor& self, double lambda, OptionalGenerator generator) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "Exponential distribution is a continuous probability distribution. dtype must be a "
              "floating point but you specified ",
              self.scalar_type());
  return templates::exponential_impl_<ExponentialKernel, void>(self, lambda, std::move(generator));
}
at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, OptionalGenerator generator) {
  return templates::cauchy_impl_<CauchyKernel, void>(self, median, sigma, std::move(generator));
}
at::Tensor& geometric_(at::Tensor& self, double p, OptionalGenerator generator) {
  return templates::geometric_impl_<GeometricKernel, void>(self, p, std::move(generator));
}

template <class Mean, class Std>
at::Tensor normal(Mean mean, Std std, OptionalGenerator generator) {
  return templates::normal_impl<NormalKernel, void>(mean, std, std::move(generator));
}
template <class Mean, class Std>
at::Tensor& normal_out(Mean mean, Std std, OptionalGenerator generator, at::Tensor& out) {
  return templates::normal_out_impl<NormalKernel, void>(out, mean, std, std::move(generator));
}

using Tensor = const at::Tensor&;

OUTBOARD_ROUTED("uniform_", uniform_)
OUTBOARD_ROUTED("normal_", normal_)
OUTBOARD_ROUTED("log_normal_", log_normal_)
OUTBOARD_ROUTED("exponential_", exponential_)
OUTBOARD_ROUTED("cauchy_", cauchy_)
OUTBOARD_ROUTED("geometric_", geometric_)
OUTBOARD_ROUTED("normal.Tensor_float", (normal<Tensor, double>))
OUTBOARD_ROUTED("normal.float_Tensor", (normal<double, Tensor>))
OUTBOARD_ROUTED("normal.Tensor_Tensor", (normal<Tensor, Tensor>))
OUTBOARD_ROUTED("normal.Tensor_float_out", (normal_out<Tensor, double>))
OUTBOARD_ROUTED("normal.float_Tensor_out", (normal_out<double, Tensor>))
OUTBOARD_ROUTED("normal.Tensor_Tensor_out", (normal_out<Tensor, Tensor>))

}  // namespace
}  // namespace outboard::random
