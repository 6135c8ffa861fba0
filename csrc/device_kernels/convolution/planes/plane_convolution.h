// The passes of a convolution over planes (plane_layout.h), for processors, whose vectors want
// large maps that lie in order. Each returns false for what other kernels suit better.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/convolution/planes/plane_layout.h"

namespace outboard {

// Planes of a gradient, which the gradients of the input and of the weight both read.
struct GradientPlanes {
  at::Tensor planes;  // undefined: not packed
  PlaneLayout layout;
};

// As in convolution.cpp: `output` is what a convolution that is not transposed writes, `input` what
// it reads. `text` is that of the kernels, which ProductProgram::keep returned. `kept` is what
// write_input_by_planes leaves behind, of all images of `output`, for write_weight_by_planes, which
// packs nothing then if the grid is the same.
bool write_output_by_planes(const ConvolutionGeometry& geometry, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& output, const std::string& text);
bool write_input_by_planes(const ConvolutionGeometry& geometry, const at::Tensor& output,
                           const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& input, const std::string& text, GradientPlanes& kept);
bool write_weight_by_planes(const ConvolutionGeometry& geometry, const at::Tensor& input,
                            const at::Tensor& output, const at::Tensor& weight,
                            const std::string& text, const GradientPlanes& kept);

}  // namespace outboard
