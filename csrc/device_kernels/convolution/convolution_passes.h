// The passes of a convolution that is not transposed, each by the kernels that suit its sizes. A
// transposed one is the backward of such a convolution with respect to its input: what it reads is
// that one's output.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/convolution/padded/padded_convolution.h"

namespace outboard {

class ConvolutionPasses {
 public:
  // `source` is the text of the kernels, those of products first; `padded` that of the kernels of
  // padded_convolution.h and winograd.h, which processors take for large maps; `groups` that of the
  // kernels of group_convolution.h, which GPUs take.
  ConvolutionPasses(const std::string& source, const std::string& padded,
                    const std::string& groups);

  // Whether kernels take tensors of these sizes; an undefined one is taken.
  static bool take(const at::Tensor& tensor);

  // What a convolution returns, transposed or not.
  void write_result(const ConvolutionGeometry& geometry, const at::Tensor& input,
                    const at::Tensor& weight, const at::Tensor& bias,
                    const at::Tensor& result) const;

  // Lays operands out as the passes want them; results keep the format of the ones before.
  void lay_out(ConvolutionOperands& operands) const;

  void write_output(const ConvolutionGeometry& geometry, const at::Tensor& input,
                    const at::Tensor& weight, const at::Tensor& bias,
                    const at::Tensor& output) const;
  void write_input(const ConvolutionGeometry& geometry, const at::Tensor& output,
                   const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& input,
                   PaddedGradient& cached) const;
  void write_weight(const ConvolutionGeometry& geometry, const at::Tensor& input,
                    const at::Tensor& output, const at::Tensor& weight,
                    const PaddedGradient& cached) const;

 private:
  const std::string& source_;
  const std::string& padded_;
  const std::string& groups_;
};

}  // namespace outboard
