// PyTorch's own Meta kernels as judges of a call: they check the arguments with PyTorch's messages
// and say sizes, strides and dtypes of the results.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "engines/overload.h"
#include "runtime/export.h"

namespace outboard {

class OUTBOARD_API MetaCall {
 public:
  // `judge` is a functional overload with a C++ Meta kernel, "aten::gather". Raises if there is
  // none of the name.
  explicit MetaCall(const std::string& judge);

  // Results without memory for the call of `overload` on the stack, whose arguments have the
  // judge's names. Raises what PyTorch raises.
  std::vector<at::Tensor> results(const Overload& overload, const torch::jit::Stack& stack) const;

 private:
  c10::OperatorHandle judge_;
  const c10::KernelFunction* kernel_;  // nullptr: ask the dispatcher
};

}  // namespace outboard
