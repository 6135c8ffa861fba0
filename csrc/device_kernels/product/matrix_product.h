// The engine of matrix products: alpha * left @ right + beta * added, of matrices, vectors and
// batches of matrices in any strides.
//
// A row's properties:
//   left, right            names of the operands
//   left_dimensions        what the operands' dimensions are, as letters: b a batch, m rows of the
//   right_dimensions       result, n its columns, k what is summed over
//   result_dimensions      a batch that is missing here is summed over, product by product
//   added                  name of what is added, broadcast to the result; "" if nothing is
//   dtypes                 bits of the dtypes that are served
//   integral_scalars       factors of integer products must be integers; otherwise they are
//   truncated conjugates_left        the left operand of a complex product is conjugated source
//   text of the kernels
// Factors are the arguments `alpha` and `beta`, where the overload has them.
#pragma once

#include <string>

#include "device_kernels/engine.h"
#include "device_kernels/product/product_program.h"

namespace outboard {

class MatrixProductKernel final : public EngineKernel {
 public:
  MatrixProductKernel(const Row& row, const c10::FunctionSchema& schema);
  bool run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
           c10::DeviceIndex device) override;

 private:
  struct Sizes;

  bool measure(const at::Tensor& tensor, const std::string& dimensions, Sizes& sizes) const;
  bool read_scalars(const torch::jit::Stack& stack, at::ScalarType dtype,
                    ProductScalars& scalars) const;
  bool accepts_output(const at::Tensor& output, const at::Tensor& left, const at::Tensor& right,
                      const at::Tensor& added, at::IntArrayRef sizes) const;
  bool conjugates_both(const at::Tensor& left, const at::Tensor& right) const;
  void enqueue_complex(const ProductScalars& scalars, const at::Tensor& left,
                       const at::Tensor& right, const at::Tensor& added, const at::Tensor& out,
                       const Sizes& sizes) const;
  void enqueue(const ProductScalars& scalars, const at::Tensor& left, const at::Tensor& right,
               const at::Tensor& added, const at::Tensor& out, const Sizes& sizes) const;

  const std::string& source_;
  std::string left_dimensions_;
  std::string right_dimensions_;
  std::string result_dimensions_;
  uint64_t dtypes_;
  int left_;
  int right_;
  int added_;
  int alpha_;
  int beta_;
  bool integral_scalars_;
  bool conjugates_left_;
  bool resizes_silently_;
};

}  // namespace outboard
