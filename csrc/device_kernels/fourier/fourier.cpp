// The kernel generator `fourier`: discrete Fourier transforms along any dimensions, of any length.
//
// Arguments are `self`, `dim`, `normalization` (0: none, 1: by the root of the number of elements
// of a transform, 2: by that number) and, by direction, `forward`, `onesided` or `last_dim_size`.
//
// Results have the memory order of PyTorch's CPU kernels: transformed dimensions are last.
#include <ATen/ops/as_strided.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/fourier/fourier_steps.h"
#include "device_kernels/kernel_table.h"
#include "device_kernels/kernel_types.h"
#include "runtime/driver/device.h"
#include "tensors/dense.h"
#include "transfer/copy.h"

namespace outboard {

class FourierKernel final : public DefinedKernel {
 public:
  FourierKernel(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  enum class Kind : uint8_t { kComplex, kFromReal, kToReal };
  struct Key {
    c10::DeviceIndex device;
    at::ScalarType dtype;
    bool wide;
    bool operator==(const Key& other) const = default;
  };

  // Dimensions in memory order of the result; those of `dims` come last.
  static at::DimVector order(const at::Tensor& self, at::DimVector& dims, bool sort_last);
  at::Tensor compute(FourierCall& call, const at::Tensor& self, at::DimVector dims,
                     int64_t last_size);
  at::Tensor complex_transform(FourierCall& call, const at::Tensor& self, at::DimVector dims,
                               bool sort_last);

  const std::string source_;
  const Kind kind_;
  KernelTable<Key, ProgramKernels> table_;
};

namespace {

using at::ScalarType;

constexpr int64_t kLongest = int64_t{1} << 30;  // squares of indices must fit 64 bits

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

FourierKernel::FourierKernel(const Definition& definition, const c10::FunctionSchema& schema)
    : DefinedKernel(definition, schema),
      source_(definition.string("source")),
      kind_(
          static_cast<Kind>(definition.one_of("direction", {"complex", "from_real", "to_real"}))) {}

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
  call.kernels = &table_.find(Key{device, call.real, call.wide}, [&] {
    return make_fourier_kernels(device, call.real, call.wide, source_);
  });
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

OUTBOARD_DEFINITION_KIND("fourier", FourierKernel);

}  // namespace outboard
