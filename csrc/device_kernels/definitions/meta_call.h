// PyTorch's meta functions: they check the arguments of a call with PyTorch's messages and compute
// sizes, strides and dtypes of the results.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "device_kernels/definitions/definition.h"
#include "device_kernels/definitions/overload.h"
#include "runtime/export.h"

namespace outboard {

class OUTBOARD_API MetaCall {
 public:
  // `meta_function`: a functional overload with a Meta kernel, "aten::gather". Raises if it does
  // not exist or has an argument that `overload` lacks.
  MetaCall(const std::string& meta_function, const Overload& overload);

  // The meta function that the field `meta` of a definition names; without it, the functional
  // form of the overload if PyTorch has a Meta kernel in C++ for it, else nullptr.
  static std::unique_ptr<const MetaCall> of(const Definition& definition, const Overload& overload);

  // Results without memory for the call of `overload` on the stack. Raises PyTorch's errors.
  // Results are cached by sizes, strides, dtypes and numbers.
  std::vector<at::Tensor> results(const Overload& overload, const torch::jit::Stack& stack) const {
    return *call(overload, stack, /*tries=*/false);
  }
  // The same, but nullopt if the meta function raises: it may not exist, or need values. Failures
  // are cached as well.
  std::optional<std::vector<at::Tensor>> try_results(const Overload& overload,
                                                     const torch::jit::Stack& stack) const {
    return call(overload, stack, /*tries=*/true);
  }

 private:
  // The cache key: default dtype, dtypes, sizes, strides and numbers of a call.
  using Facts = c10::SmallVector<int64_t, 48>;
  struct FactsHash {
    size_t operator()(const Facts& facts) const noexcept {
      const auto* bytes = reinterpret_cast<const char*>(facts.data());
      return std::hash<std::string_view>()({bytes, facts.size() * sizeof(facts[0])});
    }
  };
  using Results = std::optional<std::vector<at::Tensor>>;

  // False for an argument of an unknown kind.
  bool add_call(Facts& facts, const Overload& overload, const torch::jit::Stack& stack) const;
  Results call(const Overload& overload, const torch::jit::Stack& stack, bool tries) const;

  c10::OperatorHandle meta_function_;
  const c10::KernelFunction* kernel_ = nullptr;  // nullptr: called through the dispatcher
  std::vector<int> arguments_;                   // of the meta function, by index in the overload
  mutable std::mutex mutex_;
  mutable std::unordered_map<Facts, Results, FactsHash> known_;  // nullopt: it raised
};

}  // namespace outboard
