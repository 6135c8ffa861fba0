#include "device_kernels/expressions/expression_value.h"

#include <c10/util/Exception.h>

#include <cmath>

namespace outboard {
namespace {

// 2^63: integers are in [-2^63, 2^63).
constexpr double kIntegers = 9223372036854775808.0;

[[noreturn]] void raise_overflow(const char* operation) {
  TORCH_CHECK_VALUE(false, "an operator definition needs more than 64 bits for ", operation);
}

bool fits(double real) { return real >= -kIntegers && real < kIntegers; }

ExpressionNumber whole(double real) {
  return fits(real) ? ExpressionNumber(static_cast<int64_t>(real)) : ExpressionNumber(real);
}

// A number as a real. Raises ValueError for an integer that a double does not hold exactly.
double exact(const ExpressionNumber& number) {
  const double real = number.as_real();
  if (!number.is_real() &&
      !(real < kIntegers && static_cast<int64_t>(real) == number.as_integer())) {
    raise_overflow("a quotient of reals");
  }
  return real;
}

// A real zero divides as IEEE 754 says.
void require_divisor(const ExpressionNumber& number) {
  TORCH_CHECK_VALUE(number.is_real() || number.truth(), "an operator definition divides by zero");
}

std::partial_ordering order_of(int64_t integer, double real) {
  if (std::isnan(real)) return std::partial_ordering::unordered;
  if (!fits(real)) return 0 <=> real;
  const double down = std::floor(real);
  const auto whole = static_cast<int64_t>(down);
  return integer == whole && real > down ? std::partial_ordering::less : integer <=> whole;
}

}  // namespace

int64_t ExpressionNumber::as_integer() const {
  if (!is_real_) return integer_;
  TORCH_CHECK_VALUE(fits(real_) && real_ == std::floor(real_), "an operator definition gives ",
                    real_, " where an integer of 64 bits is needed");
  return static_cast<int64_t>(real_);
}

ExpressionNumber ExpressionNumber::operator-() const {
  if (is_real_) return -real_;
  return ExpressionNumber(0) - *this;
}

ExpressionNumber ExpressionNumber::operator+(const ExpressionNumber& other) const {
  if (is_real_ || other.is_real_) return as_real() + other.as_real();
  int64_t result;
  if (__builtin_add_overflow(integer_, other.integer_, &result)) raise_overflow("a sum");
  return result;
}

ExpressionNumber ExpressionNumber::operator-(const ExpressionNumber& other) const {
  if (is_real_ || other.is_real_) return as_real() - other.as_real();
  int64_t result;
  if (__builtin_sub_overflow(integer_, other.integer_, &result)) raise_overflow("a difference");
  return result;
}

ExpressionNumber ExpressionNumber::operator*(const ExpressionNumber& other) const {
  if (is_real_ || other.is_real_) return as_real() * other.as_real();
  int64_t result;
  if (__builtin_mul_overflow(integer_, other.integer_, &result)) raise_overflow("a product");
  return result;
}

ExpressionNumber ExpressionNumber::operator/(const ExpressionNumber& other) const {
  require_divisor(other);
  return exact(*this) / exact(other);
}

ExpressionNumber ExpressionNumber::floor_divide(const ExpressionNumber& other) const {
  require_divisor(other);
  if (is_real_ || other.is_real_) return std::floor(as_real() / other.as_real());
  if (other.integer_ == -1) return -*this;  // no other divisor overflows
  const int64_t quotient = integer_ / other.integer_;
  const bool rounded_up = integer_ % other.integer_ != 0 && (integer_ < 0) != (other.integer_ < 0);
  return quotient - (rounded_up ? 1 : 0);
}

ExpressionNumber ExpressionNumber::remainder(const ExpressionNumber& other) const {
  require_divisor(other);
  if (is_real_ || other.is_real_) {
    const double rest = std::fmod(as_real(), other.as_real());
    return rest != 0 && (rest < 0) != (other.as_real() < 0) ? rest + other.as_real() : rest;
  }
  if (other.integer_ == -1) return 0;
  const int64_t rest = integer_ % other.integer_;
  return rest != 0 && (rest < 0) != (other.integer_ < 0) ? rest + other.integer_ : rest;
}

ExpressionNumber ExpressionNumber::floor() const {
  return is_real_ ? whole(std::floor(real_)) : *this;
}

ExpressionNumber ExpressionNumber::ceil() const {
  return is_real_ ? whole(std::ceil(real_)) : *this;
}

ExpressionNumber ExpressionNumber::abs() const {
  if (is_real_) return std::abs(real_);
  return integer_ < 0 ? -*this : *this;
}

std::partial_ordering ExpressionNumber::operator<=>(const ExpressionNumber& other) const {
  if (is_real_ && other.is_real_) return real_ <=> other.real_;
  if (is_real_) return 0 <=> order_of(other.integer_, real_);
  return other.is_real_ ? order_of(integer_, other.real_) : integer_ <=> other.integer_;
}

using Kind = ExpressionValue::Kind;

ExpressionValue ExpressionValue::of_dtype(at::ScalarType dtype) {
  ExpressionValue value;
  value.kind = Kind::kNone;
  value.dtype = dtype;
  return value;
}

at::ScalarType ExpressionValue::scalar_type() const {
  return kind == Kind::kTensor && tensor->defined() ? tensor->scalar_type() : dtype;
}

ExpressionValue ExpressionValue::of_argument(const c10::IValue& argument) {
  if (argument.isTensor()) return argument.toTensor();
  if (argument.isString()) return argument.toStringRef();
  ExpressionValue value = none();
  if (argument.isList()) {  // of tensors, or of numbers of any dtypes
    value.kind = Kind::kTensors;
    value.tensors = &argument;
  } else if (argument.isScalar()) {
    const at::Scalar scalar = argument.toScalar();
    if (argument.isInt()) {
      value = argument.toInt();
    } else if (argument.isBool()) {
      value = argument.toBool();
    } else if (!scalar.isComplex()) {
      // The value of an unsigned integer above 2^63 does not matter.
      value = scalar.to<double>();
    }
    value.dtype = scalar.type();
  }
  return value;
}

bool ExpressionValue::given() const {
  const bool complex_number = kind == Kind::kNone && dtype != at::ScalarType::Undefined;
  return complex_number || (kind != Kind::kNone && (kind != Kind::kTensor || tensor->defined()));
}

bool ExpressionValue::truth() const {
  switch (kind) {
    case Kind::kNumber:
      return number.truth();
    case Kind::kList:
      return !list->empty();
    case Kind::kString:
      return !string->empty();
    case Kind::kTensor:
      return tensor->defined();
    case Kind::kTensors:
      return !tensors->toListRef().empty();
    default:
      return false;
  }
}

const ExpressionNumber& ExpressionValue::as_number() const {
  TORCH_CHECK_VALUE(kind == Kind::kNumber, "an operator definition needs a number here");
  return number;
}

const ExpressionValue::List& ExpressionValue::as_list() const {
  TORCH_CHECK_VALUE(kind == Kind::kList, "an operator definition needs a list here");
  return *list;
}

const at::Tensor& ExpressionValue::as_tensor() const {
  TORCH_CHECK_VALUE(kind == Kind::kTensor && tensor->defined(),
                    "an operator definition needs a tensor here");
  return *tensor;
}

const c10::IValue& ExpressionValue::as_tensors() const {
  TORCH_CHECK_VALUE(kind == Kind::kTensors, "an operator definition needs a list of tensors here");
  return *tensors;
}

}  // namespace outboard
