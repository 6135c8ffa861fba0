// The check of results that a user's kernel returned.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <vector>

#include "device_kernels/definitions/meta_call.h"
#include "device_kernels/definitions/overload.h"
#include "runtime/export.h"

namespace outboard {

// Of one overload. Any number of threads may use it.
class OUTBOARD_API ResultCheck {
 public:
  explicit ResultCheck(const c10::FunctionSchema& schema)
      : overload_(schema), meta_(overload_.name(), overload_) {}

  // `given` and `returned`: arguments and results of a call. Raises ValueError for a result that is
  // not the tensor that the overload writes, that is on another device than the arguments, or whose
  // dtype or shape differs from that of PyTorch's meta function, if one works without values.
  void check(const torch::jit::Stack& given, const std::vector<c10::IValue>& returned) const;

 private:
  void check_written(const torch::jit::Stack& given,
                     const std::vector<c10::IValue>& returned) const;

  const Overload overload_;
  const MetaCall meta_;
};

}  // namespace outboard
