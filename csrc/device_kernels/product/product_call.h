// A call of a matrix product: operands, sizes and factors of alpha * left @ right + beta * added,
// read from the stack and checked.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/DimVector.h>

#include <array>

#include "device_kernels/definitions/definition.h"
#include "device_kernels/definitions/overload.h"
#include "device_kernels/product/product_program.h"

namespace outboard {

// A tensor as a batch of matrices. A vector is a row if it is the left operand, else a column.
// Missing dimensions have size 1, and dimensions of size 1 have stride 0.
struct Matrices {
  std::array<int64_t, 3> sizes = {1, 1, 1};  // batches, rows, columns
  ProductStrides strides;
};
Matrices matrices_of(const at::Tensor& tensor, bool is_left = false);

struct ProductOperands {
  at::Tensor left, right;
  at::Tensor added;  // undefined if there is no summand
  at::Tensor given;  // the output, undefined in the functional form
  at::ScalarType dtype = at::ScalarType::Undefined;
  c10::DimVector result_sizes;
  ProductScalars scalars;
};

class ProductCall {
 public:
  // `overload` must outlive it. Raises ValueError for an invalid definition. Its first arguments
  // are the operands, behind the summand if it has `beta`.
  ProductCall(const Definition& definition, const Overload& overload);

  // False for a call to be declined: unsupported dtype, invalid argument, an output that overlaps
  // an input. Afterwards the only possible error is an output dtype that does not fit. Operands may
  // be conjugated.
  bool read(const torch::jit::Stack& stack, c10::DeviceIndex device,
            ProductOperands& operands) const;

 private:
  bool read_scalars(const torch::jit::Stack& stack, at::ScalarType dtype,
                    ProductScalars& scalars) const;
  bool accepts_output(const ProductOperands& operands) const;

  const Overload& overload_;
  const int64_t left_rank_, right_rank_;
  const uint64_t dtypes_;
  const int alpha_;
  const int beta_;  // -1 without a summand
};

}  // namespace outboard
