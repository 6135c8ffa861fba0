// The algorithms of the passes of a convolution.
#pragma once

#include <ATen/core/Tensor.h>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/convolution/padded_program.h"
#include "device_kernels/product/product_program.h"

namespace outboard {

// `grad_output` in the padded layout, packed by the data gradient, reused by the weight gradient.
struct PaddedGradient {
  at::Tensor planes;  // undefined: not cached
  PaddedLayout layout;
};

// Each function below returns false where it does not support the pass or other kernels are faster.

// Implicit GEMM on GPUs: work-groups share tiles (group_tiles.h), and the image is a matrix operand
// read in place.
bool write_output_by_groups(const ConvolutionPass& pass);
bool write_input_by_groups(const ConvolutionPass& pass);
bool write_weight_by_groups(const ConvolutionPass& pass);
// Converts operands to channels-last where matrix units then load 16 bytes at once and the
// convolution is large enough to pay for it. Results keep the original memory format.
void lay_out_for_groups(ConvolutionOperands& operands);

// Winograd's algorithm F(2 x 2, 3 x 3) on CPUs, for 3 x 3 kernels and stride 1: 2.25 times fewer
// products, with a few more rounding errors.
bool write_output_by_winograd(const ConvolutionPass& pass);
bool write_input_by_winograd(const ConvolutionPass& pass, PaddedGradient& cached);
bool write_weight_by_winograd(const ConvolutionPass& pass);

// The padded layout on CPUs, whose vectors need large maps in order. `cached`: written by the data
// gradient if all images of `output` were packed at once, reused if the grids match.
bool write_output_from_padded(const ConvolutionPass& pass);
bool write_input_from_padded(const ConvolutionPass& pass, PaddedGradient& cached);
bool write_weight_from_padded(const ConvolutionPass& pass, const PaddedGradient& cached);

// True if 32-bit indices cover the tensor, or it is undefined.
bool has_small_extent(const at::Tensor& tensor);

// Describes an image as the result of a product, plus `bias` if defined: rows are channels, columns
// positions of all images. Set `rows` before.
void set_image(ProductLayout& layout, const at::Tensor& image, const at::Tensor& bias);

// The address of a tensor; nullptr if it is undefined.
inline const void* address_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

// The address of the element at an offset, which is read or written.
inline const void* element(const at::Tensor& tensor, int64_t offset) {
  return static_cast<const char*>(tensor.const_data_ptr()) +
         offset * static_cast<int64_t>(tensor.element_size());
}
inline void* mutable_element(const at::Tensor& tensor, int64_t offset) {
  return static_cast<char*>(tensor.mutable_data_ptr()) +
         offset * static_cast<int64_t>(tensor.element_size());
}

}  // namespace outboard
