// The engine of convolutions by the driver's library, in 1 to 3 dimensions, transposed ones and
// backwards included. A row's properties are those of convolution_call.h.
#pragma once

#include <vector>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/engine.h"

namespace outboard {

class LibraryConvolutionKernel final : public EngineKernel {
 public:
  LibraryConvolutionKernel(const Row& row, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;
  bool calls_library() const noexcept override { return true; }

 private:
  // Undefined if the library declines.
  at::Tensor run_forward(const ConvolutionOperands& operands) const;
  // The gradients that are asked for; none if the library declines all of them.
  std::vector<at::Tensor> run_backward(const ConvolutionOperands& operands) const;

  const ConvolutionCall call_;
};

}  // namespace outboard
