// The engine of matrix products: alpha * left @ right + beta * added, of matrices, vectors and
// batches of matrices in any strides.
//
// A row's properties are those of product_call.h and
//   conjugates_left   the left operand of a complex product is conjugated
//   resizes_silently  an output of another size is resized without a warning
//   source            text of the kernels
#pragma once

#include <string>

#include "device_kernels/engine.h"
#include "device_kernels/product/product_call.h"
#include "device_kernels/product/product_program.h"

namespace outboard {

class MatrixProductKernel final : public EngineKernel {
 public:
  MatrixProductKernel(const Row& row, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  bool conjugates_both(const at::Tensor& left, const at::Tensor& right) const;
  void enqueue_complex(const ProductScalars& scalars, const at::Tensor& left,
                       const at::Tensor& right, const at::Tensor& added, const at::Tensor& out,
                       const ProductSizes& sizes) const;
  void enqueue(const ProductScalars& scalars, const at::Tensor& left, const at::Tensor& right,
               const at::Tensor& added, const at::Tensor& out, const ProductSizes& sizes) const;

  const ProductCall call_;
  const std::string& source_;
  const bool conjugates_left_;
  const bool resizes_silently_;
};

}  // namespace outboard
