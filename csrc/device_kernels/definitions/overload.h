// The schema of an overload as kernels need it: where the arguments are, and what becomes of the
// results in the functional, the in-place and the out= form.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <c10/util/ArrayRef.h>

#include <optional>
#include <algorithm>
#include <string>
#include <vector>

#include "runtime/export.h"

namespace outboard {

class OUTBOARD_API Overload {
 public:
  enum class Form : uint8_t {
    kFunctional,  // returns new tensors
    kInPlace,     // writes and returns the first argument
    kOut,         // writes and returns the arguments after the others
  };

  explicit Overload(const c10::FunctionSchema& schema);

  const std::string& name() const noexcept { return name_; }  // "aten::add.Tensor"
  Form form() const noexcept { return form_; }
  size_t argument_count() const noexcept { return argument_count_; }
  size_t result_count() const noexcept { return result_count_; }
  // Of these, from the first one on, so many are arguments that are written.
  size_t written_count() const noexcept { return std::min(written_.size(), result_count_); }

  // Position of the argument `name`; -1 if there is none.
  int find(const std::string& name) const noexcept;
  // The same; raises ValueError if there is none.
  int index(const std::string& name) const;
  const c10::Argument& argument(int index) const { return arguments_.at(index); }

  // Argument `index` of the call on the stack.
  const c10::IValue& read(const torch::jit::Stack& stack, int index) const {
    return torch::jit::peek(stack, index, argument_count_);
  }

  // Whether the call writes argument `index`, as a result or not.
  bool writes(int index) const {
    const c10::AliasInfo* alias = arguments_.at(index).alias_info();
    return alias != nullptr && alias->isWrite();
  }

  // The argument that is to be written as result `result`, nullptr in the functional form.
  const c10::IValue* given(const torch::jit::Stack& stack, size_t result = 0) const {
    return form_ == Form::kFunctional ? nullptr : &read(stack, written_.at(result));
  }
  // The tensor that is to be written as result `result`, undefined in the functional form.
  const at::Tensor& given_output(const torch::jit::Stack& stack, size_t result = 0) const;

  // Puts results behind the arguments on the stack; in the other forms than the functional one
  // they are arguments, and nothing happens.
  void finish(torch::jit::Stack* stack, at::Tensor result) const;
  void finish(torch::jit::Stack* stack, c10::ArrayRef<at::Tensor> results) const;
  // Takes the arguments, the first of which is at `base`, off the stack: the results remain.
  void take_arguments(torch::jit::Stack& stack, size_t base) const;

 private:
  std::string name_;
  Form form_ = Form::kFunctional;
  size_t argument_count_ = 0;
  size_t result_count_ = 0;
  std::vector<c10::Argument> arguments_;
  std::vector<int> written_;  // argument of each result
};

// Result tensor of `sizes` and `dtype` for generators that do not use TensorIterator. In the
// functional form a new one, in the given or else the contiguous layout. A tensor given with out=
// must have the dtype, and is resized with PyTorch's warning, or `silently`, as some operators do
// it; one written in place must have exactly these sizes. Raises what PyTorch raises.
OUTBOARD_API at::Tensor prepare_result(const Overload& overload, const at::Tensor& given,
                                       at::IntArrayRef sizes, at::ScalarType dtype,
                                       c10::Device device, at::OptionalIntArrayRef strides = {},
                                       bool silently = false);

// Whether a tensor argument can be read by a kernel on `device`: dense, on that device.
OUTBOARD_API bool is_dense_on(const at::Tensor& tensor, c10::DeviceIndex device);

// Whether every defined tensor that a value is, or has as an element, fulfils a condition.
template <class Condition>
bool all_tensors(const c10::IValue& value, const Condition& holds) {
  const auto fits = [&](const c10::IValue& element) {
    return !element.isTensor() || !element.toTensor().defined() || holds(element.toTensor());
  };
  if (!value.isTensorList() && !value.isOptionalTensorList()) return fits(value);
  const auto elements = value.toListRef();
  return std::all_of(elements.begin(), elements.end(), fits);
}

// Whether writing one of two different tensors could change the other.
OUTBOARD_API bool may_overlap(const at::Tensor& a, const at::Tensor& b);

// Whether every tensor that the call writes can be written at once: no element of one lies where
// another of its elements lies, or one of another written tensor, or one of an argument that is
// only read. `may_be_result`: per result an argument that may be the result itself; -1, or none: no
// one.
OUTBOARD_API bool writes_apart(const Overload& overload, const torch::jit::Stack& stack,
                               c10::ArrayRef<int> may_be_result = {});

}  // namespace outboard
