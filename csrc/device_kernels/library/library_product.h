// The engine of matrix products by the driver's library: alpha * left @ right + beta * added, of
// matrices, vectors and batches of matrices in any strides.
//
// A row's properties are those of product_call.h and
//   gelu_flag         name of an argument: true for GELU of the result, false for ReLU; "" where
//                     there is no activation
//   resizes_silently  an output of another size is resized without a warning
//
// What is added goes to the library in up to three forms, the next one where the one before is
// declined: a bias, if it is a vector; an operand of its own; the output itself.
#pragma once

#include "device_kernels/engine.h"
#include "device_kernels/product/product_call.h"

namespace outboard {

class LibraryProductKernel final : public EngineKernel {
 public:
  LibraryProductKernel(const Row& row, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;
  bool calls_library() const noexcept override { return true; }

 private:
  // Whether the library took it.
  bool multiply(const ProductOperands& operands, ob_activation activation, c10::DeviceIndex device,
                const at::Tensor& out) const;

  const ProductCall call_;
  const int gelu_flag_;  // -1 for none
  const bool resizes_silently_;
};

}  // namespace outboard
