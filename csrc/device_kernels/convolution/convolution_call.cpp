#include "device_kernels/convolution/convolution_call.h"

#include <ATen/ops/add.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "device_kernels/convolution/convolution_passes.h"
#include "device_kernels/kernel_types.h"
#include "tensors/dense.h"

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

// The dimensions that the gradient of the bias sums over.
c10::DimVector all_but_channels(const at::Tensor& gradient) {
  c10::DimVector dimensions;
  for (int64_t d = 0; d < gradient.dim(); ++d) {
    if (d != 1) dimensions.push_back(d);
  }
  return dimensions;
}

}  // namespace

SpatialValues spatial(at::IntArrayRef values, int64_t missing) {
  SpatialValues result = {missing, missing, missing};
  std::copy(values.begin() + 2, values.end(), result.end() - (values.size() - 2));
  return result;
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
  const SpatialValues image = sizes_of(input), kernel = sizes_of(weight);
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

TapPattern single_tap() {
  TapPattern pattern = {};
  pattern.count = pattern.cycle = pattern.step = {1, 1, 1};
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

ConvolutionOperator::ConvolutionOperator(const Definition& definition,
                                         const c10::FunctionSchema& schema)
    : DefinedKernel(definition, schema),
      backward_(overload_.find("grad_output") >= 0),
      dtypes_(definition.dtypes()),
      plain_dtypes_(static_cast<uint64_t>(definition.integer("plain_dtypes"))),
      input_(overload_.index("input")),
      stride_(overload_.index("stride")) {}

bool ConvolutionOperator::read_geometry(const torch::jit::Stack& stack, size_t dimensions,
                                        ConvolutionGeometry& geometry) const {
  const auto argument = [&](int i) { return overload_.read(stack, stride_ + i); };
  geometry.transposed = argument(3).toBool();
  geometry.groups = argument(5).toInt();
  return geometry.groups >= 1 &&
         geometry.set(dimensions, argument(0).toIntVector(), argument(1).toIntVector(),
                      argument(2).toIntVector(), argument(4).toIntVector());
}

bool ConvolutionOperator::read(const torch::jit::Stack& stack, c10::DeviceIndex device,
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
      (operands.geometry.transposed || volume(operands.geometry.dilation) > 1)) {
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

bool ConvolutionOperator::serve(torch::jit::Stack* stack, c10::DeviceIndex device) {
  ConvolutionOperands operands;
  if (!read(*stack, device, operands)) return false;
  at::MemoryFormat format = operands.input.suggest_memory_format();
  if (format == at::MemoryFormat::Contiguous) format = operands.weight.suggest_memory_format();
  if (!takes(operands, device)) return false;
  if (backward_) {
    const std::vector<at::Tensor> gradients = run_backward(operands, format);
    if (gradients.empty()) return false;
    overload_.finish(stack, gradients);
  } else {
    at::Tensor output = run_forward(operands, format);
    if (!output.defined()) return false;
    overload_.finish(stack, std::move(output));
  }
  return true;
}

at::Tensor ConvolutionOperator::run_forward(const ConvolutionOperands& operands,
                                            at::MemoryFormat format) const {
  const ConvolutionGeometry& geometry = operands.geometry;
  const auto& [input, weight, bias] = std::tie(operands.input, operands.weight, operands.bias);
  at::Tensor output =
      empty_on(input.device().index(), operands.output_sizes, input.scalar_type(), format);
  const auto write = [&](const at::Tensor& added) {
    PaddedGradient unused;
    return geometry.transposed
               ? write_input({geometry, output, operands.weight, operands.input, added}, unused)
               : write_output({geometry, operands.input, operands.weight, output, added});
  };
  if (write(bias)) return output;
  // A library may take the convolution without the bias.
  if (!bias.defined() || !write(at::Tensor())) return at::Tensor();
  c10::DimVector along_channels(output.dim(), 1);
  along_channels[1] = output.size(1);
  return at::add_out(output, output, bias.reshape(along_channels));
}

std::vector<at::Tensor> ConvolutionOperator::run_backward(const ConvolutionOperands& operands,
                                                          at::MemoryFormat format) const {
  const auto& [geometry, input, weight, gradient] =
      std::tie(operands.geometry, operands.input, operands.weight, operands.gradient);
  const c10::DeviceIndex device = input.device().index();
  const at::ScalarType dtype = input.scalar_type();
  const bool transposed = geometry.transposed;
  std::vector<at::Tensor> results(3);
  std::array<bool, 3> missing = operands.wanted;
  PaddedGradient cached;
  if (missing[0]) {
    results[0] = empty_on(device, input.sizes(), dtype, format);
    missing[0] = !(transposed ? write_output({geometry, gradient, weight, results[0]})
                              : write_input({geometry, results[0], weight, gradient}, cached));
  }
  if (missing[1]) {
    results[1] = empty_on(device, weight.sizes(), dtype);
    missing[1] = !write_weight(
        {geometry, transposed ? gradient : input, results[1], transposed ? input : gradient},
        cached);
    if (!missing[1]) results[1] = results[1].contiguous(format);
  }
  if (!missing[0] && !missing[1]) {
    if (missing[2]) results[2] = at::sum(gradient, all_but_channels(gradient));
    return results;
  }
  if (missing == operands.wanted) return {};
  const size_t skipped = 3 - static_cast<size_t>(input.dim() - 2);
  const auto values = [&](const SpatialValues& all) { return at::IntArrayRef(all).slice(skipped); };
  const std::array<int64_t, 1> bias_sizes = {operands.output_sizes[1]};
  const auto rest = at::convolution_backward(
      gradient, input, weight, at::IntArrayRef(bias_sizes), values(geometry.stride),
      values(geometry.padding), values(geometry.dilation), transposed,
      values(geometry.output_padding), geometry.groups, missing);
  if (missing[0]) results[0] = std::get<0>(rest);
  if (missing[1]) results[1] = std::get<1>(rest);
  if (missing[2]) results[2] = std::get<2>(rest);
  return results;
}

}  // namespace outboard
