// The passes of a convolution over the padded layout (padded_layout.h), for CPUs, whose vectors
// need large maps in order. Each returns false for what other kernels suit better.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/convolution/padded/padded_layout.h"

namespace outboard {

// A gradient in the padded layout, read by the gradients of the input and of the weight.
struct PaddedGradient {
  at::Tensor planes;  // undefined: not cached
  PaddedLayout layout;
};

// As in convolution.cpp: `output` is what a convolution that is not transposed writes, `input` what
// it reads. `text` is that of the kernels, which ProductProgram::keep returned. `cached` is what
// write_input_from_padded leaves behind, of all images of `output`, for write_weight_from_padded,
// which packs nothing then if the grid is the same.
bool write_output_from_padded(const ConvolutionGeometry& geometry, const at::Tensor& input,
                              const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& output, const std::string& text);
bool write_input_from_padded(const ConvolutionGeometry& geometry, const at::Tensor& output,
                             const at::Tensor& weight, const at::Tensor& bias,
                             const at::Tensor& input, const std::string& text,
                             PaddedGradient& cached);
bool write_weight_from_padded(const ConvolutionGeometry& geometry, const at::Tensor& input,
                              const at::Tensor& output, const at::Tensor& weight,
                              const std::string& text, const PaddedGradient& cached);

}  // namespace outboard
