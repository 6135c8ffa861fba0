// The engine of convolutions in 1 to 3 dimensions, transposed ones and backwards included: products
// of matrices (product_program.h) one of which is made of patches of an image while it is packed.
//
// A row's properties are those of convolution_call.h and
//   source  text of the kernels, those of products first
#pragma once

#include <string>
#include <vector>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/engine.h"
#include "device_kernels/product/product_program.h"

namespace outboard {

class ConvolutionKernel final : public EngineKernel {
 public:
  ConvolutionKernel(const Row& row, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  at::Tensor run_forward(const ConvolutionOperands& operands) const;
  std::vector<at::Tensor> run_backward(const ConvolutionOperands& operands) const;

  // The three passes of a convolution that is not transposed. A transposed one is the backward of
  // such a convolution with respect to its input: what it reads is that one's output.
  void write_output(const ConvolutionGeometry& geometry, const at::Tensor& input,
                    const at::Tensor& weight, const at::Tensor& bias,
                    const at::Tensor& output) const;
  void write_input(const ConvolutionGeometry& geometry, const at::Tensor& output,
                   const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& input) const;
  void write_input_with_steps(const ConvolutionGeometry& geometry, const at::Tensor& output,
                              const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& input) const;
  void write_weight(const ConvolutionGeometry& geometry, const at::Tensor& input,
                    const at::Tensor& output, const at::Tensor& weight) const;

  const ConvolutionCall call_;
  const std::string& source_;
};

}  // namespace outboard
