// Values of operator definitions: numbers, lists of numbers, strings, tensors, lists of tensors, or
// none.
//
// Numbers are integers of 64 bits or doubles, as Python has int and float. Integers are computed
// exactly. A result of more than 64 bits, a division by the integer zero and an integer that a real
// division would round raise ValueError, and never wrap. Reals follow IEEE 754; an operation of an
// integer and a real is one of reals.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

#include <compare>
#include <cstdint>
#include <string>
#include <type_traits>

#include "runtime/export.h"

namespace outboard {

class OUTBOARD_API ExpressionNumber {
 public:
  ExpressionNumber() = default;
  // Implicit, since literals and sizes are numbers; no other types, so that nothing is rounded
  // unseen.
  ExpressionNumber(int64_t integer) : integer_(integer) {}
  ExpressionNumber(int integer) : integer_(integer) {}
  ExpressionNumber(bool flag) : integer_(flag ? 1 : 0) {}
  ExpressionNumber(double real) : is_real_(true), real_(real) {}

  bool is_real() const noexcept { return is_real_; }
  bool truth() const noexcept { return is_real_ ? real_ != 0 : integer_ != 0; }
  // A real that is a whole number counts as one. Raises ValueError for others.
  int64_t as_integer() const;
  // The nearest double.
  double as_real() const noexcept { return is_real_ ? real_ : static_cast<double>(integer_); }

  ExpressionNumber operator-() const;
  ExpressionNumber operator+(const ExpressionNumber& other) const;
  ExpressionNumber operator-(const ExpressionNumber& other) const;
  ExpressionNumber operator*(const ExpressionNumber& other) const;
  // Of reals, whatever the operands are.
  ExpressionNumber operator/(const ExpressionNumber& other) const;
  // Rounded down; the remainder has the sign of the divisor.
  ExpressionNumber floor_divide(const ExpressionNumber& other) const;
  ExpressionNumber remainder(const ExpressionNumber& other) const;
  // Integers, or the real again where 64 bits do not hold it.
  ExpressionNumber floor() const;
  ExpressionNumber ceil() const;
  ExpressionNumber abs() const;

  // Exact, also between integers and reals; NaN is unordered.
  std::partial_ordering operator<=>(const ExpressionNumber& other) const;
  bool operator==(const ExpressionNumber& other) const { return (*this <=> other) == 0; }

 private:
  bool is_real_ = false;
  union {
    int64_t integer_ = 0;
    double real_;
  };
};

// Refers to lists, strings and tensors that the caller owns.
struct OUTBOARD_API ExpressionValue {
  enum class Kind : uint8_t { kUnknown, kNone, kNumber, kList, kString, kTensor, kTensors };
  using List = c10::SmallVector<ExpressionNumber, 6>;

  Kind kind = Kind::kUnknown;
  // The dtype of an argument that is a number. A complex number has a dtype and the kind none.
  at::ScalarType dtype = at::ScalarType::Undefined;
  ExpressionNumber number;
  union {
    const void* nothing = nullptr;
    const List* list;
    const std::string* string;
    const at::Tensor* tensor;  // may be undefined
    const c10::IValue* tensors;
  };

  ExpressionValue() = default;  // kUnknown
  // Implicit from numbers, flags, lists, strings and tensors.
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_same_v<T, ExpressionNumber>
  ExpressionValue(T number_) : kind(Kind::kNumber), number(number_) {}
  ExpressionValue(const List& list_) : kind(Kind::kList), list(&list_) {}
  ExpressionValue(const std::string& string_) : kind(Kind::kString), string(&string_) {}
  ExpressionValue(const at::Tensor& tensor_) : kind(Kind::kTensor), tensor(&tensor_) {}
  static ExpressionValue none() { return of_dtype(at::ScalarType::Undefined); }
  static ExpressionValue of_dtype(at::ScalarType dtype);
  // The value of an argument that outlives it and is no list of numbers. An argument that is no
  // flag, number, dtype (a number), string, tensor or list of tensors is none.
  static ExpressionValue of_argument(const c10::IValue& argument);

  // Neither none nor an undefined tensor.
  bool given() const;
  bool truth() const;
  // The dtype of a tensor or a number; Undefined for an argument that is not given.
  at::ScalarType scalar_type() const;
  // Raise ValueError for a value of another kind.
  const ExpressionNumber& as_number() const;
  const List& as_list() const;
  const at::Tensor& as_tensor() const;  // defined
  const c10::IValue& as_tensors() const;
};

}  // namespace outboard
