// Products of matrices with what is computed of their results, in one kernel: for compiled graphs.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "device_kernels/product/epilogue.h"
#include "runtime/export.h"

namespace outboard {

class OUTBOARD_API FusedProduct {
 public:
  // The texts of the engine's kernels, as its rows have them.
  FusedProduct(const std::string& source, const std::string& groups);

  // The results of an epilogue of left @ right, of matrices of one floating dtype on one device.
  // Raises ValueError for others, and RuntimeError if the epilogue does not compile.
  std::vector<at::Tensor> call(const at::Tensor& left, const at::Tensor& right,
                               const Epilogue::Texts& texts,
                               const std::vector<at::Tensor>& operands,
                               const std::vector<at::ScalarType>& results) const;

 private:
  const std::string& source_;
  const std::string& groups_;
};

}  // namespace outboard
