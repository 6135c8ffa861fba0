// Products of matrices with what is computed of their results, in one kernel: for compiled graphs.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "runtime/export.h"

namespace outboard {

class OUTBOARD_API FusedProduct {
 public:
  // `source` is the text of the engine's kernels; `body` as in ProductFusion.
  FusedProduct(const std::string& source, const std::string& body);

  // f(left @ right + added, other), of matrices of one floating dtype on one device; `added` and
  // `other` are broadcast. Raises ValueError for others, and RuntimeError if the body does not
  // compile.
  at::Tensor call(const at::Tensor& left, const at::Tensor& right,
                  const std::optional<at::Tensor>& added,
                  const std::optional<at::Tensor>& other) const;

 private:
  const std::string& source_;
  const std::string& body_;
};

}  // namespace outboard
