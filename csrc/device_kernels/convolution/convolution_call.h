// `convolution` and its backward: operands, parameters and geometry of a call, and its passes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/DimVector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "device_kernels/defined_kernel.h"

namespace outboard {

// Always three spatial dimensions; a tensor with fewer lacks the first ones.
using SpatialValues = std::array<int64_t, 3>;

// The spatial part of the sizes or strides of an image or a weight; `missing`: for dimensions that
// it lacks.
SpatialValues spatial(at::IntArrayRef values, int64_t missing);

inline SpatialValues sizes_of(const at::Tensor& tensor) { return spatial(tensor.sizes(), 1); }

inline int64_t volume(const SpatialValues& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

struct ConvolutionGeometry {
  SpatialValues stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;

  // Parameters with one value for all dimensions or one for each of `count`. False if one is
  // invalid. Set `transposed` before.
  bool set(size_t count, at::IntArrayRef strides, at::IntArrayRef paddings,
           at::IntArrayRef dilations, at::IntArrayRef output_paddings);

  // Sizes of the operator's result; empty if the arguments do not fit each other.
  c10::DimVector output_sizes(const at::Tensor& input, const at::Tensor& weight) const;
};

// The kernel elements (taps) of a result, per dimension: tap i reads the index floor((scale * i +
// offset) / step) relative to the position, in phase i % cycle. It is the kernel element `first + i
// * each`.
struct Taps {
  SpatialValues count, scale, offset, step, cycle;
};
struct TapPattern : Taps {
  SpatialValues first, each;

  int64_t taps() const { return count[0] * count[1] * count[2]; }
  const Taps& of_kernels() const { return *this; }
};

// The only tap is at the position itself.
TapPattern single_tap();

// Taps of an output position in the input.
TapPattern forward_taps(const ConvolutionGeometry& geometry, const SpatialValues& kernel);

// Taps of the input positions `remainder + n * stride` in the output, for the data gradient. If
// there is no tap, `count` is 0 in some dimension.
TapPattern backward_taps(const ConvolutionGeometry& geometry, const SpatialValues& kernel,
                         const SpatialValues& remainder);

// Calls `function` for each remainder of input positions divided by the stride. In a data gradient,
// positions with different remainders use different taps.
template <class Function>
void for_remainders(const ConvolutionGeometry& geometry, const SpatialValues& sizes,
                    const Function& function) {
  SpatialValues at;
  for (at[0] = 0; at[0] < std::min(geometry.stride[0], sizes[0]); ++at[0]) {
    for (at[1] = 0; at[1] < std::min(geometry.stride[1], sizes[1]); ++at[1]) {
      for (at[2] = 0; at[2] < std::min(geometry.stride[2], sizes[2]); ++at[2]) function(at);
    }
  }
}

struct ConvolutionOperands {
  ConvolutionGeometry geometry;
  at::Tensor input, weight;
  at::Tensor bias;      // undefined for none
  at::Tensor gradient;  // of the output, for a backward
  c10::DimVector output_sizes;
  // In a backward: the requested gradients of input, weight and bias.
  std::array<bool, 3> wanted = {};
};

// Writes the output, the input or the weight of an ordinary convolution from the other two. A
// transposed convolution is the data gradient of an ordinary one, so its input is the `output`
// here.
struct ConvolutionPass {
  const ConvolutionGeometry& geometry;
  at::Tensor input, weight, output;
  at::Tensor bias = {};  // added to a written image; undefined for none
};

struct PaddedGradient;  // convolution_passes.h

// `convolution` and its backward as passes. Derived classes may decline one; PyTorch's dispatcher
// computes the gradients of declined passes.
class ConvolutionOperator : public DefinedKernel {
 public:
  ConvolutionOperator(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) final;

 protected:
  // False for a call to be declined. May change the layout of operands.
  virtual bool takes(ConvolutionOperands& operands, c10::DeviceIndex device) const = 0;
  virtual bool write_output(const ConvolutionPass& pass) const = 0;
  virtual bool write_input(const ConvolutionPass& pass, PaddedGradient& cached) const = 0;
  virtual bool write_weight(const ConvolutionPass& pass, const PaddedGradient& cached) const = 0;

 private:
  bool read_geometry(const torch::jit::Stack& stack, size_t dimensions,
                     ConvolutionGeometry& geometry) const;
  // False for a call to be declined: unsupported dtype, empty operand, invalid argument.
  bool read(const torch::jit::Stack& stack, c10::DeviceIndex device,
            ConvolutionOperands& operands) const;
  // Undefined, or empty, if the passes are declined.
  at::Tensor run_forward(const ConvolutionOperands& operands, at::MemoryFormat format) const;
  std::vector<at::Tensor> run_backward(const ConvolutionOperands& operands,
                                       at::MemoryFormat format) const;

  const bool backward_;
  const uint64_t dtypes_;
  const uint64_t plain_dtypes_;
  // Indices of arguments. The weight and a bias follow the input, the other parameters the stride,
  // in the order of `convolution`.
  const int input_;
  const int stride_;
};

}  // namespace outboard
