// Convolutions by the driver's library, in 1 to 3 dimensions, transposed and backward ones
// included.
#include <ATen/ops/add.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <vector>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/defined_kernel.h"
#include "device_kernels/library/library_call.h"
#include "runtime/driver/driver_table.h"

namespace outboard {

class LibraryConvolutionKernel final : public DefinedKernel {
 public:
  LibraryConvolutionKernel(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;
  bool calls_library() const noexcept override { return true; }

 private:
  // Undefined if the library declines.
  at::Tensor run_forward(const ConvolutionOperands& operands) const;
  // The requested gradients; empty if the library declines all of them.
  std::vector<at::Tensor> run_backward(const ConvolutionOperands& operands) const;

  const ConvolutionCall call_;
};

namespace {

// The operands of an ordinary convolution; one of them is written.
struct Pass {
  ob_convolution_pass kind;
  const at::Tensor& input;
  const at::Tensor& weight;
  const at::Tensor& output;
};

// The pass that writes an image: the result, or the gradient of the input. A transposed convolution
// is the data gradient of an ordinary one.
Pass image_pass(bool scatters, const at::Tensor& read, const at::Tensor& weight,
                const at::Tensor& written) {
  return scatters ? Pass{OB_CONVOLUTION_BACKWARD_INPUT, written, weight, read}
                  : Pass{OB_CONVOLUTION_FORWARD, read, weight, written};
}

ob_tensor operand(const at::Tensor& tensor, bool written) {
  return written ? library_result(tensor) : library_tensor(tensor);
}

// False if the library declines.
bool convolve(const ConvolutionGeometry& geometry, const Pass& pass, const at::Tensor& bias) {
  const auto dimensions = static_cast<size_t>(pass.input.dim() - 2);
  const ob_tensor input = operand(pass.input, pass.kind == OB_CONVOLUTION_BACKWARD_INPUT);
  const ob_tensor weight = operand(pass.weight, pass.kind == OB_CONVOLUTION_BACKWARD_WEIGHT);
  const ob_tensor output = operand(pass.output, pass.kind == OB_CONVOLUTION_FORWARD);
  const ob_tensor vector = bias.defined() ? library_tensor(bias) : ob_tensor();
  ob_convolution description = {};
  description.struct_size = sizeof(description);
  description.pass = pass.kind;
  description.spatial_dimensions = static_cast<uint32_t>(dimensions);
  description.input = &input;
  description.weight = &weight;
  description.output = &output;
  description.bias = bias.defined() ? &vector : nullptr;
  for (size_t d = 0; d < std::size(description.stride); ++d) {
    // Spatial dimensions count from the first in the contract, and from the last in `geometry`.
    const size_t ours = d < dimensions ? d + 3 - dimensions : d - dimensions;
    description.stride[d] = geometry.stride[ours];
    description.padding[d] = geometry.padding[ours];
    description.dilation[d] = geometry.dilation[ours];
  }
  description.groups = geometry.groups;
  description.accumulation = library_accumulation(pass.input.scalar_type());
  description.flags = library_flags(pass.input.scalar_type());
  return LibraryCall<ob_convolution>(&ob_driver::convolution, "convolution",
                                     pass.input.device().index())(description);
}

}  // namespace

LibraryConvolutionKernel::LibraryConvolutionKernel(const Definition& definition,
                                                   const c10::FunctionSchema& schema)
    : DefinedKernel(definition, schema), call_(definition, overload_) {}

bool LibraryConvolutionKernel::serve(torch::jit::Stack* stack, c10::DeviceIndex device) {
  ConvolutionOperands operands;
  if (driver().convolution == nullptr || !call_.read(*stack, device, operands) ||
      !library_computes(device, operands.input.scalar_type())) {
    return false;
  }
  if (call_.backward()) {
    std::vector<at::Tensor> gradients = run_backward(operands);
    if (gradients.empty()) return false;
    overload_.finish(stack, gradients);
  } else {
    at::Tensor output = run_forward(operands);
    if (!output.defined()) return false;
    overload_.finish(stack, std::move(output));
  }
  return true;
}

at::Tensor LibraryConvolutionKernel::run_forward(const ConvolutionOperands& operands) const {
  const at::Tensor& input = operands.input;
  const at::Tensor& bias = operands.bias;
  at::Tensor output = empty_on(input.device().index(), operands.output_sizes, input.scalar_type(),
                               convolution_format(input, operands.weight));
  const Pass pass = image_pass(operands.geometry.transposed, input, operands.weight, output);
  if (convolve(operands.geometry, pass, bias)) return output;
  if (!bias.defined() || !convolve(operands.geometry, pass, at::Tensor())) return at::Tensor();
  c10::DimVector along_channels(output.dim(), 1);
  along_channels[1] = output.size(1);
  return at::add_out(output, output, bias.reshape(along_channels));
}

std::vector<at::Tensor> LibraryConvolutionKernel::run_backward(
    const ConvolutionOperands& operands) const {
  const ConvolutionGeometry& geometry = operands.geometry;
  const at::Tensor& input = operands.input;
  const at::Tensor& weight = operands.weight;
  const at::Tensor& gradient = operands.gradient;
  const c10::DeviceIndex device = input.device().index();
  const at::ScalarType dtype = input.scalar_type();
  std::vector<at::Tensor> results(3);
  std::array<bool, 3> missing = operands.wanted;
  if (missing[0]) {
    results[0] = empty_on(device, input.sizes(), dtype, convolution_format(input, weight));
    const Pass pass = image_pass(!geometry.transposed, gradient, weight, results[0]);
    missing[0] = !convolve(geometry, pass, at::Tensor());
  }
  if (missing[1]) {
    results[1] = empty_on(device, weight.sizes(), dtype);
    const Pass pass = {OB_CONVOLUTION_BACKWARD_WEIGHT, geometry.transposed ? gradient : input,
                       results[1], geometry.transposed ? input : gradient};
    missing[1] = !convolve(geometry, pass, at::Tensor());
    if (!missing[1]) results[1] = results[1].contiguous(convolution_format(input, weight));
  }
  const bool took_all = !missing[0] && !missing[1];
  if (missing[0] == operands.wanted[0] && missing[1] == operands.wanted[1]) return {};
  if (took_all) {
    if (missing[2]) results[2] = at::sum(gradient, all_but_channels(gradient));
    return results;
  }
  // PyTorch's dispatcher computes the gradients that the library declined.
  const size_t skipped = 3 - static_cast<size_t>(input.dim() - 2);
  const auto values = [&](const SpatialValues& all) { return at::IntArrayRef(all).slice(skipped); };
  const std::array<int64_t, 1> bias_sizes = {operands.output_sizes[1]};
  const auto rest = at::convolution_backward(
      gradient, input, weight, at::IntArrayRef(bias_sizes), values(geometry.stride),
      values(geometry.padding), values(geometry.dilation), geometry.transposed,
      values(geometry.output_padding), geometry.groups, missing);
  if (missing[0]) results[0] = std::get<0>(rest);
  if (missing[1]) results[1] = std::get<1>(rest);
  if (missing[2]) results[2] = std::get<2>(rest);
  return results;
}

OUTBOARD_DEFINITION_KIND("library_convolution", LibraryConvolutionKernel);

}  // namespace outboard
