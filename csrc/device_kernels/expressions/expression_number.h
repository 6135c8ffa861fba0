// Numbers of operator definitions (device_kernels/expressions/expression.h): integers of 64 bits or
// doubles, as Python has int and float.
//
// Integers are computed exactly. What does not fit into 64 bits, a division by the integer zero and
// an integer that a real division would round raise ValueError, and never wrap. Reals follow IEEE
// 754; an operation of an integer and a real is one of reals.
#pragma once

#include <cstdint>

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

  // Exact, also between integers and reals. NaN is equal to, and less than, nothing.
  bool operator==(const ExpressionNumber& other) const;
  bool operator!=(const ExpressionNumber& other) const { return !(*this == other); }
  bool operator<(const ExpressionNumber& other) const;
  bool operator<=(const ExpressionNumber& other) const;
  bool operator>(const ExpressionNumber& other) const { return other < *this; }
  bool operator>=(const ExpressionNumber& other) const { return other <= *this; }

 private:
  bool is_real_ = false;
  union {
    int64_t integer_ = 0;
    double real_;
  };
};

}  // namespace outboard
