// The kernel generator of convolutions in 1 to 3 dimensions, transposed and backward ones included:
// matrix products (product_program.h) with one operand packed from patches of an image (im2col).
//
// Properties of a definition: those of convolution_call.h and
//   source, padded, groups  sources of kernels, as for ConvolutionPasses
#include <ATen/ops/sum.h>

#include <tuple>
#include <vector>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/convolution/convolution_passes.h"
#include "device_kernels/defined_kernel.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/product/product_program.h"
#include "tensors/dense.h"

namespace outboard {

class ConvolutionKernel final : public DefinedKernel {
 public:
  ConvolutionKernel(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  at::Tensor run_forward(const ConvolutionOperands& operands, at::MemoryFormat format) const;
  std::vector<at::Tensor> run_backward(const ConvolutionOperands& operands,
                                       at::MemoryFormat format) const;

  const ConvolutionCall call_;
  const ConvolutionPasses passes_;
};

ConvolutionKernel::ConvolutionKernel(const Definition& definition,
                                     const c10::FunctionSchema& schema)
    : DefinedKernel(definition, schema),
      call_(definition, overload_),
      passes_(ProductProgram::intern(definition.string("source")),
              ProductProgram::intern(definition.string("padded")),
              ProductProgram::intern(definition.string("groups"))) {}

bool ConvolutionKernel::serve(torch::jit::Stack* stack, c10::DeviceIndex device) {
  ConvolutionOperands operands;
  if (!call_.read(*stack, device, operands) || !computes(device, operands.input.scalar_type()) ||
      !ConvolutionPasses::take(operands.input) || !ConvolutionPasses::take(operands.weight) ||
      !ConvolutionPasses::take(operands.gradient)) {
    return false;
  }
  const at::MemoryFormat format = convolution_format(operands.input, operands.weight);
  passes_.lay_out(operands);
  if (call_.backward()) {
    overload_.finish(stack, run_backward(operands, format));
  } else {
    overload_.finish(stack, run_forward(operands, format));
  }
  return true;
}

at::Tensor ConvolutionKernel::run_forward(const ConvolutionOperands& operands,
                                          at::MemoryFormat format) const {
  const auto& [geometry, input, weight, bias] =
      std::tie(operands.geometry, operands.input, operands.weight, operands.bias);
  at::Tensor output =
      empty_on(input.device().index(), operands.output_sizes, input.scalar_type(), format);
  passes_.write_result(geometry, input, weight, bias, output);
  return output;
}

std::vector<at::Tensor> ConvolutionKernel::run_backward(const ConvolutionOperands& operands,
                                                        at::MemoryFormat format) const {
  const auto& [geometry, input, weight, gradient] =
      std::tie(operands.geometry, operands.input, operands.weight, operands.gradient);
  const c10::DeviceIndex device = input.device().index();
  const at::ScalarType dtype = input.scalar_type();
  std::vector<at::Tensor> results(3);
  PaddedGradient cached;
  if (operands.wanted[0]) {
    results[0] = empty_on(device, input.sizes(), dtype, format);
    if (geometry.transposed) {
      passes_.write_output(geometry, gradient, weight, at::Tensor(), results[0]);
    } else {
      passes_.write_input(geometry, gradient, weight, at::Tensor(), results[0], cached);
    }
  }
  if (operands.wanted[1]) {
    results[1] = empty_on(device, weight.sizes(), dtype);
    if (geometry.transposed) {
      passes_.write_weight(geometry, gradient, input, results[1], cached);
    } else {
      passes_.write_weight(geometry, input, gradient, results[1], cached);
    }
    results[1] = results[1].contiguous(format);
  }
  if (operands.wanted[2]) {
    results[2] = empty_on(device, {operands.output_sizes[1]}, dtype);
    at::sum_out(results[2], gradient, all_but_channels(gradient));
  }
  return results;
}

OUTBOARD_DEFINITION_KIND("convolution", ConvolutionKernel);

}  // namespace outboard
