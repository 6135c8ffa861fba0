#include "engines/fourier.h"

#include <ATen/ops/as_strided.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "aten/copy.h"
#include "aten/empty.h"
#include "engines/kernel_types.h"
#include "engines/work_shape.h"
#include "runtime/device.h"
#include "runtime/program.h"

namespace outboard {

using at::ScalarType;

namespace {

constexpr int kDimensions = 12;
// Beyond this prime factor Bluestein's algorithm needs fewer operations.
constexpr int64_t kLargestRadix = 61;
constexpr int64_t kLongest = int64_t{1} << 30;  // squares of places must fit into 64 bits

// The radices of the passes for a transform of length n; empty where a prime factor is too large.
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

}  // namespace

struct FourierKernel::Kernels {
  Kernel* read_complex;
  Kernel* read_real;
  Kernel* cut;
  Kernel* real_parts;
  Kernel* make_roots;
  Kernel* make_chirp;
  Kernel* chirp_ends;
  Kernel* with_chirp;
  Kernel* pass_any;
  std::map<int64_t, Kernel*> passes;
  std::map<int64_t, Kernel*> lanes_passes;
  std::map<int64_t, Kernel*> first_passes;
};

// What one call shares: its kernels, and the roots of unity of the lengths that it met.
struct FourierKernel::Call {
  c10::DeviceIndex device;
  ScalarType complex;
  ScalarType real;
  int sign;
  double scale;  // that is still to be applied
  bool wide = false;
  bool vectors = false;  // explicit ones help
  const Kernels* kernels = nullptr;
  std::map<std::pair<int64_t, int>, at::Tensor> roots;

  // Complex values of a vector of 32 bytes.
  int64_t lanes() const { return real == ScalarType::Double ? 2 : 4; }
  at::Tensor make(int64_t elements, bool is_real = false) const {
    return empty_on(device, {elements}, is_real ? real : complex);
  }
  Call& index(LaunchArguments& arguments, int64_t value) {
    wide ? arguments.value(value) : arguments.value(static_cast<int32_t>(value));
    return *this;
  }
  Call& factor(LaunchArguments& arguments, double value) {
    real == ScalarType::Double ? arguments.value(value)
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

  const at::Tensor& roots_of(int64_t n, int direction);
  // A dense array [items] of `source` of any strides.
  at::Tensor read(const at::Tensor& source);
  at::Tensor cut(const at::Tensor& source, int64_t n, int64_t kept);
  at::Tensor passes(at::Tensor source, int64_t n, int64_t inner, int direction, bool last);
  // Rows of length `from` become rows of length `to`, with `count` elements that are not 0.
  at::Tensor with_chirp(const at::Tensor& source, const at::Tensor& factors, int64_t inner,
                        int64_t from, int64_t to, int64_t count, double factor_);
  at::Tensor bluestein(const at::Tensor& source, int64_t n, int64_t inner, bool last);
  // Along the dimension of length n that has `inner` elements behind each of its own.
  at::Tensor along(const at::Tensor& source, int64_t n, int64_t inner, bool last);
};

const at::Tensor& FourierKernel::Call::roots_of(int64_t n, int direction) {
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

at::Tensor FourierKernel::Call::read(const at::Tensor& source) {
  const bool is_real = !source.is_complex();
  if (!is_real && source.is_contiguous()) return source.view({-1});
  at::Tensor result = make(source.numel());
  LaunchArguments arguments;
  arguments.address(source.const_data_ptr()).address(result.mutable_data_ptr());
  const auto add = [&](auto zero) {
    std::array<decltype(zero), 1 + 2 * kDimensions> layout{};
    int64_t dims = 0;
    int64_t end = 0;  // the stride of the dimension before
    for (int64_t d = 0; d < source.dim(); ++d) {
      if (source.size(d) == 1) continue;
      // A dimension that continues the one before it is one with it.
      const bool joins = dims > 0 && end == source.size(d) * source.stride(d);
      if (!joins) layout[1 + dims++] = 1;
      layout[dims] *= source.size(d);
      layout[kDimensions + dims] = source.stride(d);
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

at::Tensor FourierKernel::Call::cut(const at::Tensor& source, int64_t n, int64_t kept) {
  at::Tensor result = make(source.numel() / n * kept);
  LaunchArguments arguments;
  arguments.address(source.const_data_ptr()).address(result.mutable_data_ptr());
  index(arguments, result.numel()).index(arguments, n).index(arguments, kept);
  factor(arguments, take_scale());
  start(kernels->cut, result.numel(), arguments);
  return result;
}

at::Tensor FourierKernel::Call::passes(at::Tensor source, int64_t n, int64_t inner, int direction,
                                       bool last) {
  const auto radices = radices_of(n);
  const at::Tensor table = roots_of(n, direction);
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
      const bool first = s == 1 && m % lanes() == 0;
      if (first || s % lanes() == 0) {
        kernel = (first ? kernels->first_passes : kernels->lanes_passes).at(radix);
        items /= lanes();
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

at::Tensor FourierKernel::Call::with_chirp(const at::Tensor& source, const at::Tensor& factors,
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

at::Tensor FourierKernel::Call::bluestein(const at::Tensor& source, int64_t n, int64_t inner,
                                          bool last) {
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

at::Tensor FourierKernel::Call::along(const at::Tensor& source, int64_t n, int64_t inner,
                                      bool last) {
  if (n == 1) return source;
  return radices_of(n).empty() ? bluestein(source, n, inner, last)
                               : passes(source, n, inner, sign, last);
}

FourierKernel::FourierKernel(const Row& row, const c10::FunctionSchema& schema)
    : EngineKernel(row, schema), source_(row.text("source")) {
  const std::string& kind = row.text("kind");
  TORCH_CHECK_VALUE(kind == "complex" || kind == "from_real" || kind == "to_real", "the kind '",
                    kind, "' of a Fourier row is none of 'complex', 'from_real' and 'to_real'");
  kind_ = kind == "complex"     ? Kind::kComplex
          : kind == "from_real" ? Kind::kFromReal
                                : Kind::kToReal;
  self_ = overload_.index("self");
  dim_ = overload_.index("dim");
  normalization_ = overload_.index("normalization");
  option_ = overload_.index(kind_ == Kind::kComplex    ? "forward"
                            : kind_ == Kind::kFromReal ? "onesided"
                                                       : "last_dim_size");
}

const FourierKernel::Kernels& FourierKernel::kernels(const Call& call) {
  return *table_.find(Key{call.device, call.real, call.wide}, [&] {
    std::string text = "typedef " + value_type(call.real) + " S;\n";
    text += "typedef " + value_type(call.complex) + " V;\n";
    text += "typedef " + value_type(call.real, static_cast<int>(2 * call.lanes())) + " L;\n";
    text += "#define OB_LANES " + std::to_string(call.lanes()) + "\n";
    text += call.wide ? "typedef long ob_index;\ntypedef ulong ob_unsigned;\n"
                      : "typedef int ob_index;\ntypedef uint ob_unsigned;\n";
    text += "#define OB_DIMENSIONS " + std::to_string(kDimensions) + "\n";
    if (call.real == ScalarType::Double) text += "#define OB_DOUBLE\n";
    text += source_;
    const char* options = literal_options(call.real);
    const auto kernel = [&](const std::string& name) {
      return &find_kernel(call.device, text, name, options);
    };
    auto* made = new Kernels{kernel("read_complex"),
                             kernel("read_real"),
                             kernel("cut"),
                             kernel("real_parts"),
                             kernel("make_roots"),
                             kernel("make_chirp"),
                             kernel("chirp_ends"),
                             kernel("with_chirp"),
                             kernel("pass_any"),
                             {},
                             {},
                             {}};
    for (const int64_t radix : {2, 3, 4, 5, 8}) {
      made->passes[radix] = kernel("pass" + std::to_string(radix));
    }
    for (const int64_t radix : {2, 4, 8}) {
      made->lanes_passes[radix] = kernel("lanes_pass" + std::to_string(radix));
      made->first_passes[radix] = kernel("first_pass" + std::to_string(radix));
    }
    return made;
  });
}

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

namespace {

// A dense array with these sizes in the order of `order`, as a tensor.
at::Tensor as_result(const at::Tensor& dense, at::IntArrayRef sizes, at::IntArrayRef order) {
  at::DimVector strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return dense.as_strided(sizes, strides);
}

}  // namespace

at::Tensor FourierKernel::complex_transform(Call& call, const at::Tensor& self, at::DimVector dims,
                                            bool sort_last) {
  const at::DimVector places = order(self, dims, sort_last);
  at::Tensor data = call.read(self.permute(places));
  int64_t inner = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    data = call.along(data, self.size(dims[i]), inner, /*last=*/i == 0);
    inner *= self.size(dims[i]);
  }
  // No pass has applied the factor, or none has made a copy.
  if (call.scale != 1 || data.data_ptr() == self.data_ptr()) data = call.cut(data, inner, inner);
  return as_result(data, self.sizes(), places);
}

at::Tensor FourierKernel::compute(Call& call, const at::Tensor& self, at::DimVector dims,
                                  int64_t last_size) {
  if (kind_ == Kind::kComplex) return complex_transform(call, self, dims, /*sort_last=*/true);
  const int64_t last = dims.back();
  at::DimVector sizes(self.sizes());
  sizes[last] = last_size;
  if (kind_ == Kind::kFromReal) {
    const at::DimVector places = order(self, dims, /*sort_last=*/false);
    const int64_t n = self.size(last);
    at::Tensor data = call.along(call.read(self.permute(places)), n, 1, dims.size() == 1);
    if (last_size != n) data = call.cut(data, n, last_size);
    int64_t inner = last_size;
    for (size_t i = dims.size() - 1; i-- > 0;) {
      data = call.along(data, self.size(dims[i]), inner, /*last=*/i == 0);
      inner *= self.size(dims[i]);
    }
    if (call.scale != 1) data = call.cut(data, inner, inner);
    return as_result(data, sizes, places);
  }
  const double scale = call.take_scale();
  at::Tensor half = self;
  if (dims.size() > 1) {
    half = complex_transform(call, self, {dims.begin(), dims.end() - 1}, /*sort_last=*/true);
  }
  call.scale = scale;
  at::DimVector only{last};
  const at::DimVector places = order(half, only, /*sort_last=*/false);
  at::Tensor data = call.read(half.permute(places));
  data = call.along(call.cut(data, half.size(last), last_size), last_size, 1, /*last=*/true);
  at::Tensor result = call.make(data.numel(), /*is_real=*/true);
  LaunchArguments arguments;
  arguments.address(data.const_data_ptr()).address(result.mutable_data_ptr());
  call.index(arguments, result.numel()).factor(arguments, call.take_scale());
  call.start(call.kernels->real_parts, result.numel(), arguments);
  return as_result(result, sizes, places);
}

bool FourierKernel::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                        torch::jit::Stack* stack, c10::DeviceIndex device) {
  const c10::IValue& first = overload_.read(*stack, self_);
  const c10::IValue& listed = overload_.read(*stack, dim_);
  if (!first.isTensor() || !is_dense_on(first.toTensor(), device) || !listed.isIntList()) {
    return false;
  }
  const at::Tensor& self = first.toTensor();
  const ScalarType dtype = self.scalar_type();
  const bool from_real = kind_ == Kind::kFromReal;
  if (self.numel() == 0 || self.dim() > kDimensions || self.is_conj() || self.is_neg()) {
    return false;
  }
  if (from_real ? dtype != ScalarType::Float && dtype != ScalarType::Double
                : dtype != ScalarType::ComplexFloat && dtype != ScalarType::ComplexDouble) {
    return false;
  }
  Call call;
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
  const c10::IValue& option = overload_.read(*stack, option_);
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
  const int64_t normalization = overload_.read(*stack, normalization_).toInt();
  call.scale = normalization == 0 ? 1 : 1 / (normalization == 1 ? std::sqrt(elements) : elements);
  // Bluestein's arrays are up to four times as long.
  int64_t extent = 1;
  for (int64_t d = 0; d < self.dim(); ++d) extent += (self.size(d) - 1) * self.stride(d);
  call.wide =
      std::max(extent, 8 * std::max(self.numel(), self.numel() / last * last_size)) > INT32_MAX;

  const at::Tensor& given = overload_.given_output(*stack);
  if (given.defined() &&
      (!is_dense_on(given, device) ||
       given.scalar_type() != (kind_ == Kind::kToReal ? call.real : call.complex))) {
    return false;
  }
  call.kernels = &kernels(call);
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

OUTBOARD_ENGINE("fourier", FourierKernel);

}  // namespace outboard
