// What is computed of the sums of a product, or a convolution, before they are stored.
//
// The kernel that stores sums calls an epilogue with vectors of neighbouring columns of a row; it
// stores one result or several, which all lie in memory alike. In the words of the table of scalar
// functions (scalar_functions.h) an epilogue consists of statements that know
//   a            the sums
//   b0, b1 ...   operands at their places
//   k[0] ...     what `of_row` made of the operands of the row
//   r[0] ...     the results, which the statements assign
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/export.h"
#include "runtime/programs/launch.h"

namespace outboard {

class OUTBOARD_API Epilogue {
 public:
  // Where an operand has its elements, as letters: one for each result ('e'), for each row of the
  // product ('r'), which is a channel of a convolution, or for each column ('c').
  struct Texts {
    std::string of_row;    // statements that know operands of the row, and assign k[0] ...
    int row_values = 0;    // how many those are
    std::string body;      // statements that know all, and assign the results
    std::string operands;  // a letter for each
  };

  // The one epilogue for operands of these dtypes; lives for ever. Raises ValueError where letters
  // and operands do not fit, or there is no result.
  static const Epilogue& of(const Texts& texts, const std::vector<at::Tensor>& operands,
                            const std::vector<at::ScalarType>& results);

  const std::string& places() const noexcept { return texts_.operands; }
  const std::vector<at::ScalarType>& operands() const noexcept { return operands_; }
  const std::vector<at::ScalarType>& results() const noexcept { return results_; }

  // What stands between the definitions of a product (product_definitions) and its kernels: FUSED,
  // OUT, the type of the first result, FUSED_PARAMETERS and FUSED_BIND for what `add_arguments`
  // adds, and functions that matrix_product.cl describes.
  std::string text(at::ScalarType value, int width) const;

 private:
  Epilogue(const Texts& texts, std::vector<at::ScalarType> operands,
           std::vector<at::ScalarType> results);
  std::string function(const std::string& head, const std::string& statements,
                       const std::string& letters) const;

  Texts texts_;
  std::vector<at::ScalarType> operands_, results_;
};

// An epilogue with the tensors of a call.
class OUTBOARD_API BoundEpilogue {
 public:
  // All results get the layout of the first, `out`; operands are copied where they lie otherwise.
  // Raises ValueError for operands on other devices, and RuntimeError for such of other sizes:
  // `rows` and `columns` are those of the product.
  BoundEpilogue(const Epilogue& epilogue, std::vector<at::Tensor> operands, const at::Tensor& out,
                int64_t rows, int64_t columns);

  const Epilogue& epilogue() const noexcept { return *epilogue_; }
  const std::vector<at::Tensor>& results() const noexcept { return results_; }
  // Operands and results but the first, from the element `first` of the results on.
  void add_arguments(LaunchArguments& arguments, int64_t first = 0) const;

 private:
  const Epilogue* epilogue_;
  std::vector<at::Tensor> operands_, results_;
};

}  // namespace outboard
