// PyTorch's meta functions for a call: they check the arguments with PyTorch's messages
// and say sizes, strides and dtypes of the results.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "device_kernels/definitions/overload.h"
#include "device_kernels/definitions/definition.h"
#include "runtime/export.h"

namespace outboard {

class OUTBOARD_API MetaCall {
 public:
  // `meta_function` is a functional overload with a Meta kernel, "aten::gather". Raises if there is
  // none of the name, or if it has an argument that `overload` lacks.
  MetaCall(const std::string& meta_function, const Overload& overload);

  // That of an operator definition: its property `meta`; without one, the functional form of the
  // overload if PyTorch has a Meta kernel in C++ for it.
  static std::unique_ptr<const MetaCall> of(const Definition& definition, const Overload& overload);

  // Results without memory for the call of `overload` on the stack, whose arguments have the
  // meta function's names. Raises what PyTorch raises.
  //
  // Results are cached by sizes, strides, dtypes and numbers.
  std::vector<at::Tensor> results(const Overload& overload, const torch::jit::Stack& stack) const;
  // The same, but none where the meta function raises: it may not exist, or need to see values.
  // That is remembered as well.
  std::optional<std::vector<at::Tensor>> try_results(const Overload& overload,
                                                     const torch::jit::Stack& stack) const;

 private:
  // What the meta function sees of a call.
  using Facts = c10::SmallVector<int64_t, 48>;
  struct FactsHash {
    size_t operator()(const Facts& facts) const noexcept;
  };

  // False where an argument is of a kind that is not known here.
  bool add_call(Facts& facts, const Overload& overload, const torch::jit::Stack& stack) const;

  c10::OperatorHandle meta_function_;
  const c10::KernelFunction* kernel_;  // nullptr: ask the dispatcher
  std::vector<int> arguments_;         // of the meta function, by index in the overload
  mutable std::mutex mutex_;
  mutable std::unordered_map<Facts, std::vector<at::Tensor>, FactsHash> known_;
  mutable std::unordered_set<Facts, FactsHash> refused_;
};

}  // namespace outboard
