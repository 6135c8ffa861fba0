// Values of expressions: numbers, lists of numbers, strings, tensors, lists of tensors, or none.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string>

#include "device_kernels/expressions/expression_number.h"
#include "runtime/export.h"

namespace outboard {

// Refers to lists, strings and tensors that the caller owns.
struct OUTBOARD_API ExpressionValue {
  enum class Kind : uint8_t { kUnknown, kNone, kNumber, kList, kString, kTensor, kTensors };
  using List = c10::SmallVector<ExpressionNumber, 6>;

  Kind kind = Kind::kUnknown;
  // Of a number that was given as one, also of a complex one, whose kind is none.
  at::ScalarType dtype = at::ScalarType::Undefined;
  ExpressionNumber number;
  union {
    const void* nothing = nullptr;
    const List* list;
    const std::string* string;
    const at::Tensor* tensor;  // may be undefined
    const c10::IValue* tensors;
  };

  static ExpressionValue none();
  static ExpressionValue of(ExpressionNumber number);
  static ExpressionValue of(const List& list);
  static ExpressionValue of(const std::string& string);
  static ExpressionValue of(const at::Tensor& tensor);
  // Of an argument that is no list of numbers, which outlives the value. What is no flag, number,
  // dtype (a number), string, tensor or list of tensors is none.
  static ExpressionValue of_argument(const c10::IValue& argument);

  // Neither none nor an undefined tensor.
  bool given() const;
  bool truth() const;
  // Raise ValueError for a value of another kind.
  const ExpressionNumber& as_number() const;
  const List& as_list() const;
  const at::Tensor& as_tensor() const;  // defined
  const c10::IValue& as_tensors() const;
};

}  // namespace outboard
