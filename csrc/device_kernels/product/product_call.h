// A call of a matrix product: operands, sizes and factors of alpha * left @ right + beta * added,
// read from the stack and checked.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/DimVector.h>

#include <string>

#include "device_kernels/definitions/definition.h"
#include "device_kernels/definitions/overload.h"
#include "device_kernels/product/product_program.h"

namespace outboard {

// Of dimensions by their letters: b of a batch, m rows of the result, n its columns, k what is
// summed over. -1 for one that there is not.
struct ProductSizes {
  int64_t b = -1, m = -1, n = -1, k = -1;

  int64_t& of(char letter);
};

struct ProductOperands {
  at::Tensor left, right;
  at::Tensor added;  // undefined if there is no summand
  at::Tensor given;  // the output, undefined in the functional form
  at::ScalarType dtype = at::ScalarType::Undefined;
  ProductSizes sizes;
  c10::DimVector result_sizes;
  ProductScalars scalars;
};

class ProductCall {
 public:
  // `overload` must outlive it. Raises ValueError for an invalid definition.
  ProductCall(const Definition& definition, const Overload& overload);

  // False for a call to be declined: unsupported dtype, invalid argument, an output that overlaps
  // an input. Afterwards the only possible error is an output dtype that does not fit. Operands may
  // be conjugated.
  bool read(const torch::jit::Stack& stack, c10::DeviceIndex device,
            ProductOperands& operands) const;

  const std::string& left_dimensions() const noexcept { return left_dimensions_; }
  const std::string& right_dimensions() const noexcept { return right_dimensions_; }
  const std::string& result_dimensions() const noexcept { return result_dimensions_; }

 private:
  bool read_scalars(const torch::jit::Stack& stack, at::ScalarType dtype,
                    ProductScalars& scalars) const;
  bool accepts_output(const ProductOperands& operands) const;

  const Overload& overload_;
  const std::string left_dimensions_;
  const std::string right_dimensions_;
  const std::string result_dimensions_;
  const uint64_t dtypes_;
  const int left_;
  const int right_;
  const int added_;
  const int alpha_;
  const int beta_;
  const bool integral_scalars_;
};

// Strides of a tensor whose dimensions have these letters; 0 for missing dimensions and those of
// size 1.
ProductStrides strides_of(const at::Tensor& tensor, const std::string& dimensions, char row,
                          char column);

}  // namespace outboard
