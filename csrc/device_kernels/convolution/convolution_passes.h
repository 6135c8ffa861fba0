// The passes of a convolution, each by the kernels for its sizes. A transposed convolution is the
// data gradient of an ordinary one, so its input is the `output` here.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/convolution/padded/padded_convolution.h"

namespace outboard {

class ConvolutionPasses {
 public:
  // Sources of kernels: `source` begins with that of matrix products; `padded` is for
  // padded_convolution.h and winograd.h, on CPUs with large maps; `groups` is for
  // group_convolution.h, on GPUs.
  ConvolutionPasses(const std::string& source, const std::string& padded,
                    const std::string& groups);

  // True if the kernels support tensors of this extent, or the tensor is undefined.
  static bool take(const at::Tensor& tensor);

  // The result of `convolution`, transposed or not.
  void write_result(const ConvolutionGeometry& geometry, const at::Tensor& input,
                    const at::Tensor& weight, const at::Tensor& bias,
                    const at::Tensor& result) const;

  // Changes the layout of operands for faster passes. Results keep the original memory format.
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
