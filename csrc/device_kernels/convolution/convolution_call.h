// What a call of `convolution` or of its backward asks for, read from the stack and looked at, for
// kernel generators that compute it.
//
// Properties of their definitions:
//   backward  the overload is a backward; otherwise it has the arguments of `convolution`
//   dtypes    bits of the dtypes that are served
//   plain_dtypes
//             those of them that are served only where nothing is transposed or dilated
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/DimVector.h>

#include <array>

#include "device_kernels/definitions/overload.h"
#include "device_kernels/definitions/definition.h"

namespace outboard {

// Of spatial dimensions there are always three; those that a tensor lacks are the first.
using SpatialValues = std::array<int64_t, 3>;

// The spatial part of sizes or strides of an image or a weight; `missing` for what it lacks.
SpatialValues spatial(at::IntArrayRef values, int64_t missing);

inline int64_t volume(const SpatialValues& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

struct ConvolutionGeometry {
  SpatialValues stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;

  // Takes parameters with one value for each of `count` dimensions, or one for all. False if one is
  // wrong; `transposed` is set before.
  bool set(size_t count, at::IntArrayRef strides, at::IntArrayRef paddings,
           at::IntArrayRef dilations, at::IntArrayRef output_paddings);

  // Sizes of what the operator returns; empty where arguments do not fit each other.
  c10::DimVector output_sizes(const at::Tensor& input, const at::Tensor& weight) const;
};

struct ConvolutionOperands {
  ConvolutionGeometry geometry;
  at::Tensor input, weight;
  at::Tensor bias;      // undefined for none
  at::Tensor gradient;  // of the output, for a backward
  c10::DimVector output_sizes;
  // For a backward: whether the gradients of input, weight and bias are asked for.
  std::array<bool, 3> wanted = {};
};

class ConvolutionCall {
 public:
  // `overload` outlives it. Raises ValueError for a definition that makes no sense.
  ConvolutionCall(const Definition& definition, const Overload& overload);

  bool backward() const noexcept { return backward_; }

  // Returns false for a call that is to be declined: a dtype that the definition does not serve, an
  // empty operand, a mistake.
  bool read(const torch::jit::Stack& stack, c10::DeviceIndex device,
            ConvolutionOperands& operands) const;

 private:
  bool read_geometry(const torch::jit::Stack& stack, size_t dimensions,
                     ConvolutionGeometry& geometry) const;

  const Overload& overload_;
  const bool backward_;
  const uint64_t dtypes_;
  const uint64_t plain_dtypes_;
  const int input_;
  const int weight_;
  const int stride_;
  const int padding_;
  const int dilation_;
  const int transposed_;
  const int output_padding_;
  const int groups_;
  const int bias_;      // -1 for a backward
  const int gradient_;  // -1 for what is no backward
  const int mask_;
};

// The memory format of an image that results.
at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight);

// The dimensions over which a gradient is summed for that of the bias.
c10::DimVector all_but_channels(const at::Tensor& gradient);

}  // namespace outboard
