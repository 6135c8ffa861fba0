// The passes of a convolution with kernels of 3 x 3 in steps of 1 by Winograd's algorithm
// F(2 x 2, 3 x 3), for processors: 2.25 times fewer products, with errors of few more roundings.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/convolution/padded/padded_convolution.h"

namespace outboard {

// As those of padded_convolution.h, with the same `text` and `cached`.
// Each returns false for what other kernels suit better.
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
