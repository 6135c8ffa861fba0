// Convolution passes with 3 x 3 kernels and stride 1 by Winograd's algorithm F(2 x 2, 3 x 3), for
// CPUs: 2.25 times fewer products, with a few more rounding errors.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/convolution/padded/padded_convolution.h"

namespace outboard {

// Arguments `text` and `cached` as in padded_convolution.h. Each returns false where other kernels
// are faster.
bool write_output_by_winograd(const ConvolutionGeometry& geometry, const at::Tensor& input,
                              const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& output, const std::string& text);
bool write_input_by_winograd(const ConvolutionGeometry& geometry, const at::Tensor& output,
                             const at::Tensor& weight, const at::Tensor& bias,
                             const at::Tensor& input, const std::string& text,
                             PaddedGradient& cached);
bool write_weight_by_winograd(const ConvolutionGeometry& geometry, const at::Tensor& input,
                              const at::Tensor& output, const at::Tensor& weight,
                              const std::string& text);

}  // namespace outboard
