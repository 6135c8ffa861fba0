// The schema of an overload: arguments on the stack, and results in the functional, in-place and
// out= forms.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

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
  // The number of results that are arguments; they are the first ones.
  size_t written_count() const noexcept { return std::min(written_.size(), result_count_); }

  // Index of the argument `name`; -1 if there is none.
  int find(const std::string& name) const noexcept;
  // The same; raises ValueError if there is none.
  int index(const std::string& name) const;
  const c10::Argument& argument(int index) const { return arguments_.at(index); }

  // Argument `index` of the call on the stack.
  const c10::IValue& read(const torch::jit::Stack& stack, int index) const {
    return torch::jit::peek(stack, index, argument_count_);
  }

  // True if the call writes argument `index`, as a result or not.
  bool writes(int index) const {
    const c10::AliasInfo* alias = arguments_.at(index).alias_info();
    return alias != nullptr && alias->isWrite();
  }

  // The argument for result `result`; nullptr in the functional form.
  const c10::IValue* given(const torch::jit::Stack& stack, size_t result = 0) const {
    return form_ == Form::kFunctional ? nullptr : &read(stack, written_.at(result));
  }
  // The tensor for result `result`; undefined in the functional form.
  const at::Tensor& given_output(const torch::jit::Stack& stack, size_t result = 0) const;

  // Pushes results in the functional form. In other forms they are arguments on the stack already.
  void finish(torch::jit::Stack* stack, at::Tensor result) const;
  void finish(torch::jit::Stack* stack, c10::ArrayRef<at::Tensor> results) const;
  // Removes the arguments from the stack, where they begin at `base`. The results remain.
  void take_arguments(torch::jit::Stack& stack, size_t base) const;

 private:
  std::string name_;
  Form form_ = Form::kFunctional;
  size_t argument_count_ = 0;
  size_t result_count_ = 0;
  std::vector<c10::Argument> arguments_;
  std::vector<int> written_;  // argument of each result
};

// Result tensor of `sizes` and `dtype` for generators that do not use TensorIterator. The
// functional form makes a new one with `strides`, by default contiguous. A tensor given with out=
// must have the dtype and is resized, with PyTorch's warning unless `silently`. A tensor written in
// place must have the sizes. Raises PyTorch's errors.
OUTBOARD_API at::Tensor prepare_result(const Overload& overload, const at::Tensor& given,
                                       at::IntArrayRef sizes, at::ScalarType dtype,
                                       c10::Device device, at::OptionalIntArrayRef strides = {},
                                       bool silently = false);

// True if a kernel on `device` can read the tensor: strided layout, on that device.
OUTBOARD_API bool is_dense_on(const at::Tensor& tensor, c10::DeviceIndex device);

// True if writing one of two different tensors could change the other.
OUTBOARD_API bool may_overlap(const at::Tensor& a, const at::Tensor& b);

// True if no element of a written tensor shares memory with another of its elements, with another
// written tensor or with an argument that is only read. `may_be_result`: per result the argument
// that may be the same tensor; -1 or missing: none.
OUTBOARD_API bool writes_apart(const Overload& overload, const torch::jit::Stack& stack,
                               c10::ArrayRef<int> may_be_result = {});

// True if `dtype` can hold a number without overflow; real dtypes hold no complex numbers.
// `strict`, for factors such as alpha: integers hold no fractions, and only bool holds flags. The
// CPU kernel raises for the others where PyTorch does.
OUTBOARD_API bool takes_number(at::ScalarType dtype, const at::Scalar& number, bool strict = false);

// Indices of the arguments of type Scalar.
OUTBOARD_API std::vector<int> number_arguments(const Overload& overload);
// True if `dtype` can hold these arguments of a call.
OUTBOARD_API bool takes_numbers(at::ScalarType dtype, const std::vector<int>& arguments,
                                const Overload& overload, const torch::jit::Stack& stack);

}  // namespace outboard
