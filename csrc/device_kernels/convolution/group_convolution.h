// The passes of a convolution as implicit GEMM on GPUs: work-groups share tiles (group_tiles.h),
// and the image is a matrix operand read in place. Each returns false on devices without such
// work-groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "device_kernels/convolution/convolution_call.h"

namespace outboard {

// Arguments of convolution_passes.h; `text`: source of group_tiles.h from ProductProgram::intern.
bool write_output_by_groups(const ConvolutionGeometry& geometry, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& output, const std::string& text);
bool write_input_by_groups(const ConvolutionGeometry& geometry, const at::Tensor& output,
                           const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& input, const std::string& text);
bool write_weight_by_groups(const ConvolutionGeometry& geometry, const at::Tensor& input,
                            const at::Tensor& output, const at::Tensor& weight,
                            const std::string& text);

// Converts operands to channels-last where matrix units then load 16 bytes at once and the
// convolution is large enough to pay for it.
void lay_out_for_groups(ConvolutionOperands& operands, const std::string& text);

}  // namespace outboard
