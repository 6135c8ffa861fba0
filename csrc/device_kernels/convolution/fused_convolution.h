// Convolutions with what is computed of their results, in one kernel: for compiled graphs.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "device_kernels/convolution/convolution_passes.h"
#include "device_kernels/product/epilogue.h"
#include "runtime/export.h"

namespace outboard {

// The arguments of aten::convolution behind the tensors.
struct ConvolutionArguments {
  std::vector<int64_t> stride, padding, dilation;
  bool transposed;
  std::vector<int64_t> output_padding;
  int64_t groups;
};

class OUTBOARD_API FusedConvolution {
 public:
  // Texts as those of ConvolutionPasses.
  FusedConvolution(const std::string& source, const std::string& planes, const std::string& groups);

  // The results of an epilogue of a convolution of images in 1 to 3 dimensions, of which there is
  // at least one, of one floating dtype on one device. Raises ValueError for others, and
  // RuntimeError if the epilogue does not compile.
  std::vector<at::Tensor> call(const at::Tensor& input, const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias,
                               const ConvolutionArguments& arguments, const Epilogue::Texts& texts,
                               const std::vector<at::Tensor>& operands,
                               const std::vector<at::ScalarType>& results) const;

 private:
  const ConvolutionPasses passes_;
};

}  // namespace outboard
