// The passes of a convolution over the padded layout (padded_layout.h), for CPUs, whose vectors
// need large maps in order. Each returns false where other kernels are faster.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/convolution/padded/padded_layout.h"

namespace outboard {

// `grad_output` in the padded layout, packed by the data gradient, reused by the weight gradient.
struct PaddedGradient {
  at::Tensor planes;  // undefined: not cached
  PaddedLayout layout;
};

// `output` and `input` belong to the convolution that is not transposed. `text`: source of the
// kernels, interned by ProductProgram::intern. `cached`: written by write_input_from_padded if all
// images of `output` were packed at once, reused by write_weight_from_padded if the grids match.
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
