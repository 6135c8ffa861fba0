#include "device_kernels/fourier/fourier_steps.h"

#include <c10/util/SmallVector.h>

#include "device_kernels/kernel_types.h"
#include "device_kernels/source_writer.h"

namespace outboard {
namespace {

// Above this prime factor Bluestein's algorithm needs fewer operations.
constexpr int64_t kLargestRadix = 61;

// Complex values in a vector of 32 bytes, for values of `real`.
int64_t lanes_of(at::ScalarType real) { return real == at::ScalarType::Double ? 2 : 4; }

// Radices of the passes for length n, in order; empty if a prime factor is too large for a pass.
c10::SmallVector<int64_t, 16> radices_of(int64_t n) {
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

ProgramKernels make_fourier_kernels(c10::DeviceIndex device, at::ScalarType real, bool wide,
                                    const std::string& source) {
  std::string program = write_source({"fourier",
                                      {{"real", real},
                                       {"lanes", lanes_of(real)},
                                       {"wide", wide},
                                       {"dimensions", kFourierDimensions},
                                       {"kernels", source}}});
  return {device, std::move(program), literal_options(real)};
}

at::Tensor FourierCall::read(const at::Tensor& source) {
  const bool is_real = !source.is_complex();
  if (!is_real && source.is_contiguous()) return source.view({-1});
  at::Tensor result = make(source.numel());
  const auto read_as = [&](auto zero) {
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
    launch_kernel(is_real ? "read_real" : "read_complex", result.numel(), source, result, layout,
                  result.numel());
  };
  wide ? read_as(int64_t{0}) : read_as(int32_t{0});
  return result;
}

at::Tensor FourierCall::cut(const at::Tensor& source, int64_t n, int64_t count) {
  at::Tensor result = make(source.numel() / n * count);
  launch_kernel("cut", result.numel(), source, result, result.numel(), n, count, take_scale());
  return result;
}

at::Tensor FourierCall::along(const at::Tensor& source, int64_t n, int64_t inner, bool last) {
  if (n == 1) return source;
  return radices_of(n).empty() ? bluestein(source, n, inner, last)
                               : passes(source, n, inner, sign, last);
}

const at::Tensor& FourierCall::roots_of(int64_t n, int32_t direction) {
  at::Tensor& table = roots[{n, direction}];
  if (!table.defined()) {
    table = make(n);
    launch_kernel("make_roots", n, table, n, direction);
  }
  return table;
}

at::Tensor FourierCall::passes(at::Tensor source, int64_t n, int64_t inner, int32_t direction,
                               bool last) {
  const auto radices = radices_of(n);
  const at::Tensor table = roots_of(n, direction);
  const int64_t lanes = lanes_of(real);
  int64_t s = inner;
  int64_t m = n;
  for (size_t i = 0; i < radices.size(); ++i) {
    const int64_t radix = radices[i];
    m /= radix;
    at::Tensor result = make(source.numel());
    const double factor = last && i + 1 == radices.size() ? take_scale() : 1;
    if (radix > 8 || radix == 7) {
      const int64_t items = source.numel();
      launch_kernel("pass_any", items, source, result, table, items, s, m, n / (m * radix),
                    direction, factor, radix);
    } else {
      std::string kernel = "pass" + std::to_string(radix);
      int64_t items = source.numel() / radix;
      const bool first = s == 1 && m % lanes == 0;
      if (vectors && radix % 2 == 0 && (first || s % lanes == 0)) {
        kernel = (first ? "first_" : "lanes_") + kernel;
        items /= lanes;
      }
      launch_kernel(kernel, items, source, result, table, items, s, m, n / (m * radix), direction,
                    factor);
    }
    s *= radix;
    source = std::move(result);
  }
  return source;
}

at::Tensor FourierCall::with_chirp(const at::Tensor& source, const at::Tensor& factors,
                                   int64_t inner, int64_t from, int64_t to, int64_t count,
                                   double factor) {
  at::Tensor result = make(source.numel() / from * to);
  launch_kernel("with_chirp", result.numel(), source, result, factors, result.numel(), inner, from,
                to, count, factor);
  return result;
}

at::Tensor FourierCall::bluestein(const at::Tensor& source, int64_t n, int64_t inner, bool last) {
  int64_t length = 1;
  while (length < 2 * n - 1) length *= 2;
  const at::Tensor chirp = make(n);
  launch_kernel("make_chirp", n, chirp, n, sign);
  at::Tensor factors = make(length);
  launch_kernel("chirp_ends", length, chirp, factors, n, length);
  factors = passes(factors, length, 1, -1, /*last=*/false);

  at::Tensor data = with_chirp(source, chirp, inner, n, length, n, 1);
  data = passes(data, length, inner, -1, /*last=*/false);
  data = with_chirp(data, factors, inner, length, length, length, 1);
  data = passes(data, length, inner, 1, /*last=*/false);
  const double factor = (last ? take_scale() : 1) / static_cast<double>(length);
  return with_chirp(data, chirp, inner, length, n, n, factor);
}

bool FourierCall::halves(int64_t n) { return n % 2 == 0 && n >= 4 && !radices_of(n / 2).empty(); }

at::Tensor FourierCall::from_real(const at::Tensor& rows, int64_t n, int64_t count, bool last) {
  const at::Tensor data = passes(seen_as(rows, complex), n / 2, 1, sign, /*last=*/false);
  at::Tensor result = make(rows.numel() / n * count);
  launch_kernel("untangle", result.numel(), data, result, roots_of(n, sign), result.numel(), n,
                count, last ? take_scale() : 1.0);
  return result;
}

at::Tensor FourierCall::to_real(const at::Tensor& source, int64_t n) {
  at::Tensor data = make(source.numel() / (n / 2 + 1) * (n / 2));
  launch_kernel("tangle", data.numel(), source, data, roots_of(n, sign), data.numel(), n);
  return seen_as(passes(data, n / 2, 1, sign, /*last=*/true), real);
}

at::Tensor FourierCall::real_parts(const at::Tensor& source) {
  at::Tensor result = make(source.numel(), /*is_real=*/true);
  launch_kernel("real_parts", result.numel(), source, result, result.numel(), take_scale());
  return result;
}

}  // namespace outboard
