// The passes of a convolution by groups of work items that share tiles (group_tiles.h), on GPUs:
// the image takes the place of a matrix, and is read where it lies. Each returns false on devices
// without such groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "device_kernels/convolution/convolution_call.h"

namespace outboard {

// As in convolution_passes.h; `text` is that of group_tiles.h, which ProductProgram::keep returned.
bool write_output_by_groups(const ConvolutionGeometry& geometry, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& output, const std::string& text);
bool write_input_by_groups(const ConvolutionGeometry& geometry, const at::Tensor& output,
                           const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& input, const std::string& text);
bool write_weight_by_groups(const ConvolutionGeometry& geometry, const at::Tensor& input,
                            const at::Tensor& output, const at::Tensor& weight,
                            const std::string& text);

// Lays operands out with the channels of a place side by side, where matrix units then read 16
// bytes at once and the convolution is large enough to be worth it.
void lay_out_for_groups(ConvolutionOperands& operands, const std::string& text);

}  // namespace outboard
