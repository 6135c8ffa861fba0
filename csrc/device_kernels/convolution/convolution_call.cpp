#include "device_kernels/convolution/convolution_call.h"

#include <algorithm>
#include <numeric>

#include "device_kernels/kernel_types.h"

namespace outboard {
namespace {

// A parameter with one value for all dimensions or one for each of `count`. False if invalid.
bool set_values(at::IntArrayRef given, size_t count, int64_t missing, int64_t least,
                SpatialValues& values) {
  if (given.size() != count && given.size() != 1) return false;
  values = {missing, missing, missing};
  for (size_t i = 0; i < count; ++i) values[3 - count + i] = given[given.size() == 1 ? 0 : i];
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v >= least; });
}

bool all_are_one(const SpatialValues& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t value) { return value == 1; });
}

}  // namespace

SpatialValues spatial(at::IntArrayRef values, int64_t missing) {
  SpatialValues result = {missing, missing, missing};
  std::copy(values.begin() + 2, values.end(), result.end() - (values.size() - 2));
  return result;
}

at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight) {
  const at::MemoryFormat format = input.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format;
}

c10::DimVector all_but_channels(const at::Tensor& gradient) {
  c10::DimVector dimensions;
  for (int64_t d = 0; d < gradient.dim(); ++d) {
    if (d != 1) dimensions.push_back(d);
  }
  return dimensions;
}

bool ConvolutionGeometry::set(size_t count, at::IntArrayRef strides, at::IntArrayRef paddings,
                              at::IntArrayRef dilations, at::IntArrayRef output_paddings) {
  if (!set_values(strides, count, 1, 1, stride) || !set_values(paddings, count, 0, 0, padding) ||
      !set_values(dilations, count, 1, 1, dilation) ||
      !set_values(output_paddings, count, 0, 0, output_padding)) {
    return false;
  }
  if (!transposed) return true;
  for (int d = 0; d < 3; ++d) {
    if (output_padding[d] >= std::max(stride[d], dilation[d]) && output_padding[d] > 0) {
      return false;
    }
  }
  return true;
}

c10::DimVector ConvolutionGeometry::output_sizes(const at::Tensor& input,
                                                 const at::Tensor& weight) const {
  const int64_t in_channels = transposed ? weight.size(0) : weight.size(1) * groups;
  if (input.size(1) != in_channels || groups < 1 || weight.size(0) % groups != 0) return {};
  const SpatialValues image = spatial(input.sizes(), 1), kernel = spatial(weight.sizes(), 1);
  c10::DimVector sizes = {input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (int64_t d = 5 - input.dim(); d < 3; ++d) {
    const int64_t reach = dilation[d] * (kernel[d] - 1) + 1;
    const int64_t size =
        transposed ? (image[d] - 1) * stride[d] - 2 * padding[d] + reach + output_padding[d]
        : image[d] + 2 * padding[d] < reach ? 0
                                            : (image[d] + 2 * padding[d] - reach) / stride[d] + 1;
    if (size <= 0) return {};
    sizes.push_back(size);
  }
  return sizes;
}

TapPattern gathered_taps(int64_t taps) {
  TapPattern pattern = {};
  pattern.count = pattern.cycle = {1, 1, taps};
  pattern.step = {1, 1, 1};
  return pattern;
}

TapPattern forward_taps(const ConvolutionGeometry& geometry, const SpatialValues& kernel) {
  TapPattern pattern = {};
  for (int d = 0; d < 3; ++d) {
    pattern.count[d] = kernel[d];
    pattern.scale[d] = geometry.dilation[d];
    pattern.offset[d] = -geometry.padding[d];
    pattern.step[d] = geometry.stride[d];
    pattern.cycle[d] = geometry.stride[d] / std::gcd(geometry.stride[d], geometry.dilation[d]);
    pattern.each[d] = 1;
  }
  return pattern;
}

TapPattern backward_taps(const ConvolutionGeometry& geometry, const SpatialValues& kernel,
                         const SpatialValues& remainder) {
  TapPattern pattern = {};
  for (int d = 0; d < 3; ++d) {
    const int64_t stride = geometry.stride[d], dilation = geometry.dilation[d];
    const int64_t reached = remainder[d] + geometry.padding[d];
    pattern.step[d] = pattern.cycle[d] = 1;
    pattern.each[d] = stride / std::gcd(stride, dilation);
    const int64_t last = std::min(pattern.each[d], kernel[d]);
    while (pattern.first[d] < last && (reached - pattern.first[d] * dilation) % stride != 0) {
      ++pattern.first[d];
    }
    if (pattern.first[d] == last) continue;
    pattern.count[d] = (kernel[d] - 1 - pattern.first[d]) / pattern.each[d] + 1;
    pattern.scale[d] = -(pattern.each[d] * dilation / stride);
    pattern.offset[d] = (reached - pattern.first[d] * dilation) / stride;
  }
  return pattern;
}

ConvolutionCall::ConvolutionCall(const Definition& definition, const Overload& overload)
    : overload_(overload),
      backward_(overload.find("grad_output") >= 0),
      dtypes_(definition.dtypes()),
      plain_dtypes_(static_cast<uint64_t>(definition.integer("plain_dtypes"))),
      input_(overload_.index("input")),
      stride_(overload_.index("stride")) {}

bool ConvolutionCall::read_geometry(const torch::jit::Stack& stack, size_t dimensions,
                                    ConvolutionGeometry& geometry) const {
  const auto argument = [&](int i) { return overload_.read(stack, stride_ + i); };
  geometry.transposed = argument(3).toBool();
  geometry.groups = argument(5).toInt();
  return geometry.groups >= 1 &&
         geometry.set(dimensions, argument(0).toIntVector(), argument(1).toIntVector(),
                      argument(2).toIntVector(), argument(4).toIntVector());
}

bool ConvolutionCall::read(const torch::jit::Stack& stack, c10::DeviceIndex device,
                           ConvolutionOperands& operands) const {
  const at::Tensor& input = operands.input = overload_.read(stack, input_).toTensor();
  const at::Tensor& weight = operands.weight = overload_.read(stack, input_ + 1).toTensor();
  if (!input.defined() || !weight.defined()) return false;
  const at::ScalarType dtype = input.scalar_type();
  const auto serves = [&](const at::Tensor& tensor) {
    return is_dense_on(tensor, device) && tensor.scalar_type() == dtype && tensor.numel() > 0;
  };
  if ((dtypes_ & dtype_bit(dtype)) == 0 || !serves(input) || !serves(weight) || input.dim() < 3 ||
      input.dim() > 5 || weight.dim() != input.dim() ||
      !read_geometry(stack, static_cast<size_t>(input.dim() - 2), operands.geometry)) {
    return false;
  }
  if ((plain_dtypes_ & dtype_bit(dtype)) != 0 &&
      (operands.geometry.transposed || !all_are_one(operands.geometry.dilation))) {
    return false;
  }
  operands.output_sizes = operands.geometry.output_sizes(input, weight);
  if (operands.output_sizes.empty()) return false;
  if (!backward_) {
    const c10::IValue& bias = overload_.read(stack, input_ + 2);
    if (bias.isTensor()) operands.bias = bias.toTensor();
    return !operands.bias.defined() || (serves(operands.bias) && operands.bias.dim() == 1 &&
                                        operands.bias.size(0) == operands.output_sizes[1]);
  }
  operands.gradient = overload_.read(stack, 0).toTensor();
  const auto mask = overload_.read(stack, stride_ + 6).toBoolList();
  for (size_t i = 0; i < operands.wanted.size(); ++i) operands.wanted[i] = mask.get(i);
  return serves(operands.gradient) &&
         operands.gradient.sizes() == at::IntArrayRef(operands.output_sizes);
}

}  // namespace outboard
