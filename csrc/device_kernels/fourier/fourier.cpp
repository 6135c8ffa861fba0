// The kernel generator `fourier`: discrete Fourier transforms along any dimensions, of any length.
//
// Arguments are `self`, `dim`, `normalization` (0: none, 1: by the root of the number of elements
// of a transform, 2: by that number) and, by direction, `forward`, `onesided` or `last_dim_size`.
//
// Steps are one or more launches. Values between steps are dense 1-d complex arrays. `scale` is
// applied once, by the last step of a transform, which reads all values anyway.
//
// Results have the memory order of PyTorch's CPU kernels: transformed dimensions are last.
#include <ATen/ops/as_strided.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/kernel_table.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/source_writer.h"
#include "device_kernels/work_shape.h"
#include "runtime/driver/device.h"
#include "tensors/dense.h"
#include "transfer/copy.h"

namespace outboard {
namespace {

using at::ScalarType;

// Dimension limit of kernels that read any layout.
constexpr int kFourierDimensions = 12;
constexpr int64_t kLongest = int64_t{1} << 30;  // squares of indices must fit 64 bits
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

// The kernels for values of dtype `real`; `wide`: 64-bit indices.
ProgramKernels make_fourier_kernels(c10::DeviceIndex device, at::ScalarType real, bool wide) {
  std::string program = write_source({"fourier",
                                      {{"real", real},
                                       {"lanes", lanes_of(real)},
                                       {"wide", wide},
                                       {"dimensions", kFourierDimensions}}});
  return {device, std::move(program), literal_options(real)};
}

// A dense array in the memory order `order`, as a tensor of these sizes.
at::Tensor as_result(const at::Tensor& dense, at::IntArrayRef sizes, at::IntArrayRef order) {
  at::DimVector strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return dense.as_strided(sizes, strides);
}

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
  at::Tensor read(const at::Tensor& source) {
    const bool is_real = !source.is_complex();
    if (!is_real && source.is_contiguous()) return source.view({-1});
    at::Tensor result = make(source.numel());
    std::array<int64_t, 1 + 2 * kFourierDimensions> layout{};
    int64_t& dims = layout[0];
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
    launch_kernel(is_real ? "read_real" : "read_complex", result.numel(), source, result, layout,
                  result.numel());
    return result;
  }
  // The first `count` elements of rows of length n; missing elements are the conjugates that make
  // the transform real.
  at::Tensor cut(const at::Tensor& source, int64_t n, int64_t count) {
    at::Tensor result = make(source.numel() / n * count);
    launch_kernel("cut", result.numel(), source, result, result.numel(), n, count, take_scale());
    return result;
  }
  // Transforms the dimension of length n, whose elements are `inner` apart. `last`: this step
  // applies the scale.
  at::Tensor along(const at::Tensor& source, int64_t n, int64_t inner, bool last) {
    if (n == 1) return source;
    return radices_of(n).empty() ? bluestein(source, n, inner, last)
                                 : passes(source, n, inner, sign, last);
  }

  // True if real rows of length n can be transformed as complex ones of half the length.
  static bool halves(int64_t n) { return n % 2 == 0 && n >= 4 && !radices_of(n / 2).empty(); }
  // If halves(n), the first `count` elements of the transforms of real rows of length n; and the
  // inverse, from n / 2 + 1 elements. n real values are n / 2 complex values in the same memory,
  // whose transform contains the transforms of the even and the odd elements.
  at::Tensor from_real(const at::Tensor& rows, int64_t n, int64_t count, bool last) {
    const at::Tensor data = passes(seen_as(rows, complex), n / 2, 1, sign, /*last=*/false);
    at::Tensor result = make(rows.numel() / n * count);
    launch_kernel("untangle", result.numel(), data, result, roots_of(n, sign), result.numel(), n,
                  count, last ? take_scale() : 1.0);
    return result;
  }
  at::Tensor to_real(const at::Tensor& source, int64_t n) {
    at::Tensor data = make(source.numel() / (n / 2 + 1) * (n / 2));
    launch_kernel("tangle", data.numel(), source, data, roots_of(n, sign), data.numel(), n);
    return seen_as(passes(data, n / 2, 1, sign, /*last=*/true), real);
  }
  // The real parts, times the unapplied `scale`.
  at::Tensor real_parts(const at::Tensor& source) {
    at::Tensor result = make(source.numel(), /*is_real=*/true);
    launch_kernel("real_parts", result.numel(), source, result, result.numel(), take_scale());
    return result;
  }

 private:
  // exp(direction * 2 pi i t / n) for t < n.
  const at::Tensor& roots_of(int64_t n, int32_t direction) {
    at::Tensor& table = roots[{n, direction}];
    if (!table.defined()) {
      table = make(n);
      launch_kernel("make_roots", n, table, n, direction);
    }
    return table;
  }
  // `along` for an n with small prime factors: a pass per radix, from one array into another.
  at::Tensor passes(at::Tensor source, int64_t n, int64_t inner, int32_t direction, bool last) {
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
  // `along` for any n, by Bluestein's algorithm: a convolution with a chirp, computed by transforms
  // of a power of two.
  at::Tensor bluestein(const at::Tensor& source, int64_t n, int64_t inner, bool last) {
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
  // Multiplies: rows of length `from` become rows of length `to`, with `count` elements that are
  // not 0.
  at::Tensor with_chirp(const at::Tensor& source, const at::Tensor& factors, int64_t inner,
                        int64_t from, int64_t to, int64_t count, double factor) {
    at::Tensor result = make(source.numel() / from * to);
    launch_kernel("with_chirp", result.numel(), source, result, factors, result.numel(), inner,
                  from, to, count, factor);
    return result;
  }

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
  template <class Layout>  // or one index
  void add(LaunchArguments& arguments, const Layout& layout) const {
    add_layout(arguments, layout, wide);
  }
  static void add(LaunchArguments& arguments, int32_t flag) { arguments.value(flag); }
  void add(LaunchArguments& arguments, double factor) const {
    real == at::ScalarType::Double ? arguments.value(factor)
                                   : arguments.value(static_cast<float>(factor));
  }
};

// Transforms the first `count` of `dims`, the last one first. `inner`: elements of the dimensions
// behind them; it becomes that of all.
at::Tensor along_each(FourierCall& call, const at::Tensor& self, at::IntArrayRef dims, size_t count,
                      at::Tensor data, int64_t& inner) {
  for (size_t i = count; i-- > 0;) {
    data = call.along(data, self.size(dims[i]), inner, /*last=*/i == 0);
    inner *= self.size(dims[i]);
  }
  return data;
}

}  // namespace

class FourierKernel final : public DefinedKernel {
 public:
  FourierKernel(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  enum class Kind : uint8_t { kComplex, kFromReal, kToReal };
  // Dimensions in memory order of the result; those of `dims` come last.
  static at::DimVector order(const at::Tensor& self, at::DimVector& dims, bool sort_last);
  at::Tensor compute(FourierCall& call, const at::Tensor& self, at::DimVector dims,
                     int64_t last_size);
  at::Tensor complex_transform(FourierCall& call, const at::Tensor& self, at::DimVector dims,
                               bool sort_last);

  const Kind kind_;
  KernelTable<std::tuple<c10::DeviceIndex, ScalarType, bool>, ProgramKernels> table_;
};

FourierKernel::FourierKernel(const Definition& definition, const c10::FunctionSchema& schema)
    : DefinedKernel(definition, schema),
      kind_(overload_.find("onesided") >= 0        ? Kind::kFromReal
            : overload_.find("last_dim_size") >= 0 ? Kind::kToReal
                                                   : Kind::kComplex) {}

at::DimVector FourierKernel::order(const at::Tensor& self, at::DimVector& dims, bool sort_last) {
  const auto by_stride = [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); };
  std::stable_sort(dims.begin(), sort_last ? dims.end() : dims.end() - 1, by_stride);
  at::DimVector result;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) result.push_back(d);
  }
  std::stable_sort(result.begin(), result.end(), by_stride);
  result.append(dims.begin(), dims.end());
  return result;
}

at::Tensor FourierKernel::complex_transform(FourierCall& call, const at::Tensor& self,
                                            at::DimVector dims, bool sort_last) {
  const at::DimVector memory_order = order(self, dims, sort_last);
  int64_t inner = 1;
  at::Tensor data =
      along_each(call, self, dims, dims.size(), call.read(self.permute(memory_order)), inner);
  // A copy is needed if no pass has applied the scale, or if the data is still that of `self`.
  if (call.scale != 1 || data.const_data_ptr() == self.const_data_ptr())
    data = call.cut(data, inner, inner);
  return as_result(data, self.sizes(), memory_order);
}

at::Tensor FourierKernel::compute(FourierCall& call, const at::Tensor& self, at::DimVector dims,
                                  int64_t last_size) {
  if (kind_ == Kind::kComplex) return complex_transform(call, self, dims, /*sort_last=*/true);
  const int64_t last = dims.back();
  at::DimVector sizes(self.sizes());
  sizes[last] = last_size;
  if (kind_ == Kind::kFromReal) {
    const at::DimVector memory_order = order(self, dims, /*sort_last=*/false);
    const int64_t n = self.size(last);
    const at::Tensor rows = self.permute(memory_order);
    const bool only_one = dims.size() == 1;
    const bool aligned = self.storage_offset() % 2 == 0;
    at::Tensor data;
    if (FourierCall::halves(n) && aligned && rows.is_contiguous()) {
      data = call.from_real(rows, n, last_size, only_one);
    } else {
      data = call.along(call.read(rows), n, 1, only_one);
      if (last_size != n) data = call.cut(data, n, last_size);
    }
    int64_t inner = last_size;
    data = along_each(call, self, dims, dims.size() - 1, std::move(data), inner);
    if (call.scale != 1) data = call.cut(data, inner, inner);
    return as_result(data, sizes, memory_order);
  }
  const double scale = call.take_scale();
  at::Tensor half = self;
  if (dims.size() > 1) {
    half = complex_transform(call, self, {dims.begin(), dims.end() - 1}, /*sort_last=*/true);
  }
  call.scale = scale;
  at::DimVector only{last};
  const at::DimVector memory_order = order(half, only, /*sort_last=*/false);
  at::Tensor data = call.read(half.permute(memory_order));
  if (FourierCall::halves(last_size)) {
    return as_result(call.to_real(data, last_size), sizes, memory_order);
  }
  data = call.along(call.cut(data, half.size(last), last_size), last_size, 1, /*last=*/true);
  return as_result(call.real_parts(data), sizes, memory_order);
}

bool FourierKernel::serve(torch::jit::Stack* stack, c10::DeviceIndex device) {
  const c10::IValue& first = overload_.read(*stack, 0);
  const c10::IValue& listed = overload_.read(*stack, 1);
  if (!first.isTensor() || !is_dense_on(first.toTensor(), device) || !listed.isIntList()) {
    return false;
  }
  const at::Tensor& self = first.toTensor();
  const ScalarType dtype = self.scalar_type();
  const bool from_real = kind_ == Kind::kFromReal;
  if (self.numel() == 0 || self.dim() > kFourierDimensions || self.is_conj() || self.is_neg()) {
    return false;
  }
  if (from_real ? dtype != ScalarType::Float && dtype != ScalarType::Double
                : dtype != ScalarType::ComplexFloat && dtype != ScalarType::ComplexDouble) {
    return false;
  }
  FourierCall call;
  call.device = device;
  call.vectors = device_properties(device).kind == OB_DEVICE_CPU;
  call.real = c10::toRealValueType(dtype);
  call.complex = c10::toComplexType(call.real);
  if (!computes(device, call.complex)) return false;

  at::DimVector dims;
  for (const int64_t d : listed.toIntVector()) {
    const int64_t dim = d < 0 ? d + self.dim() : d;
    if (dim < 0 || dim >= self.dim() || std::count(dims.begin(), dims.end(), dim) > 0) return false;
    dims.push_back(dim);
  }
  if (dims.empty()) return false;
  const c10::IValue& option = overload_.read(*stack, 3);
  const int64_t last = self.size(dims.back());
  int64_t last_size = last;
  if (kind_ == Kind::kToReal) {
    if (!option.isInt() || option.toInt() < 1) return false;
    last_size = option.toInt();
    if (last != last_size / 2 + 1) return false;
  } else if (from_real && option.toBool()) {
    last_size = last / 2 + 1;
  }
  call.sign = from_real || (kind_ == Kind::kComplex && option.toBool()) ? -1 : 1;
  double elements = kind_ == Kind::kToReal ? static_cast<double>(last_size) / last : 1.0;
  for (const int64_t d : dims) {
    if (self.size(d) > kLongest) return false;
    elements *= static_cast<double>(self.size(d));
  }
  const int64_t normalization = overload_.read(*stack, 2).toInt();
  if (normalization < 0 || normalization > 2) return false;  // CPU truncates it to 8 bits
  call.scale = normalization == 0 ? 1 : 1 / (normalization == 1 ? std::sqrt(elements) : elements);
  // Arrays of Bluestein's algorithm are up to four times as long.
  call.wide = std::max(span_elements(self),
                       8 * std::max(self.numel(), self.numel() / last * last_size)) > INT32_MAX;

  const at::Tensor& given = overload_.given_output(*stack);
  if (given.defined() &&
      (!is_dense_on(given, device) ||
       given.scalar_type() != (kind_ == Kind::kToReal ? call.real : call.complex))) {
    return false;
  }
  call.kernels = &table_.find({device, call.real, call.wide},
                              [&] { return make_fourier_kernels(device, call.real, call.wide); });
  const at::Tensor result = compute(call, self, dims, last_size);
  if (!given.defined()) {
    overload_.finish(stack, result);
    return true;
  }
  const at::Tensor output =
      prepare_result(overload_, given, result.sizes(), result.scalar_type(), device_of(device));
  copy_into(output, result);
  overload_.finish(stack, output);
  return true;
}

C10_REGISTER_CLASS(DefinitionKinds, fourier, FourierKernel)

}  // namespace outboard
