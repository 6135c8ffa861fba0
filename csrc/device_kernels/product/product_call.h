// What a call of an overload multiplies: operands, sizes and factors, read from the stack and
// looked at, for generators that compute alpha * left @ right + beta * added.
//
// Properties of their definitions:
//   left, right            names of the operands
//   left_dimensions        what the operands' dimensions are, as letters: b a batch, m rows of the
//   right_dimensions       result, n its columns, k what is summed over
//   result_dimensions      a batch that is missing here is summed over, product by product
//   added                  name of what is added, broadcast to the result; "" if nothing is
//   dtypes                 bits of the dtypes that are served
//   integral_scalars       factors of integer products must be integers; otherwise they are
//                          truncated
// Factors are the arguments `alpha` and `beta`, where the overload has them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/DimVector.h>

#include <string>

#include "device_kernels/product/product_program.h"
#include "device_kernels/definitions/overload.h"
#include "device_kernels/definitions/definition.h"

namespace outboard {

// Of dimensions by their letters; -1 for one that there is not.
struct ProductSizes {
  int64_t b = -1, m = -1, n = -1, k = -1;

  int64_t& of(char letter);
};

struct ProductOperands {
  at::Tensor left, right;
  at::Tensor added;  // undefined if the overload adds nothing
  at::Tensor given;  // the output, undefined in the functional form
  at::ScalarType dtype = at::ScalarType::Undefined;
  ProductSizes sizes;
  c10::DimVector result_sizes;
  ProductScalars scalars;
};

class ProductCall {
 public:
  // `overload` outlives it. Raises ValueError for a definition that makes no sense.
  ProductCall(const Definition& definition, const Overload& overload);

  // Returns false for a call that is to be declined: a dtype that the definition does not serve, a
  // mistake, an output that overlaps what is read. Afterwards nothing but dtypes that do not fit
  // the output can be wrong with the call. Operands may be conjugated.
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

// Strides of a tensor whose dimensions have these letters; 0 for a dimension that it lacks, or that
// has size 1.
ProductStrides strides_of(const at::Tensor& tensor, const std::string& dimensions, char definition,
                          char column);

}  // namespace outboard
