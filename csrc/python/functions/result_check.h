// Whether what a user's kernel returned may be an operator's result.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include "device_kernels/definitions/meta_call.h"
#include "device_kernels/definitions/overload.h"

namespace outboard {

// Of one overload. Any number of threads may use it.
class ResultCheck {
 public:
  explicit ResultCheck(const c10::FunctionSchema& schema);

  // `given` and `returned` are the arguments and the results of a call. Raises ValueError where a
  // result is not the tensor that the overload writes; or is on another device than the arguments;
  // or has another dtype or shape than PyTorch's Meta kernel says, for overloads that have one
  // which need not see values.
  void check(const torch::jit::Stack& given, const std::vector<c10::IValue>& returned) const;

 private:
  void check_written(const torch::jit::Stack& given,
                     const std::vector<c10::IValue>& returned) const;

  const Overload overload_;
  const MetaCall meta_;
};

}  // namespace outboard
