// The engine of convolutions in 1 to 3 dimensions, transposed ones and backwards included: products
// of matrices (product_program.h) one of which is made of patches of an image while it is packed.
//
// A row's properties:
//   backward  the overload is a backward; otherwise it has the arguments of `convolution`
//   dtypes    bits of the dtypes that are served
//   plain_dtypes
//             those of them that are served only where nothing is transposed or dilated
//   source    text of the kernels, those of products first
#pragma once

#include <string>

#include "device_kernels/engine.h"
#include "device_kernels/product/product_program.h"

namespace outboard {

class ConvolutionKernel final : public EngineKernel {
 public:
  ConvolutionKernel(const Row& row, const c10::FunctionSchema& schema);
  bool run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
           c10::DeviceIndex device) override;

 private:
  struct Geometry;

  bool serves(const at::Tensor& tensor, const at::Tensor& like, c10::DeviceIndex device) const;
  bool run_forward(torch::jit::Stack* stack, const Geometry& geometry, const at::Tensor& input,
                   const at::Tensor& weight);
  bool run_backward(torch::jit::Stack* stack, const Geometry& geometry, const at::Tensor& input,
                    const at::Tensor& weight);

  // The three passes of a convolution that is not transposed. A transposed one is the backward of
  // such a convolution with respect to its input: what it reads is that one's output.
  void write_output(const Geometry& geometry, const at::Tensor& input, const at::Tensor& weight,
                    const at::Tensor& bias, const at::Tensor& output) const;
  void write_input(const Geometry& geometry, const at::Tensor& output, const at::Tensor& weight,
                   const at::Tensor& bias, const at::Tensor& input) const;
  void write_input_with_steps(const Geometry& geometry, const at::Tensor& output,
                              const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& input) const;
  void write_weight(const Geometry& geometry, const at::Tensor& input, const at::Tensor& output,
                    const at::Tensor& weight) const;

  const bool backward_;
  const uint64_t dtypes_;
  const uint64_t plain_dtypes_;
  const std::string& source_;
  int input_;
  int weight_;
  int stride_;
  int padding_;
  int dilation_;
  int transposed_;
  int output_padding_;
  int groups_;
};

}  // namespace outboard
