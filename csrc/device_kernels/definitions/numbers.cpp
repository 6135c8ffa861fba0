#include "device_kernels/definitions/numbers.h"

#include <c10/util/Exception.h>
#include <c10/util/TypeCast.h>
#include <c10/util/overflows.h>

namespace outboard {

using at::ScalarType;

namespace {

// Whether a number cannot be converted.
bool overflows(const at::Scalar& scalar, ScalarType dtype) {
  if (scalar.isBoolean() || dtype == ScalarType::Bool) return false;
  const auto exceeds = [&]<class T>(T) {
    if (scalar.isComplex()) return c10::overflows<T>(scalar.toComplexDouble());
    if (scalar.isFloatingPoint()) return c10::overflows<T>(scalar.toDouble());
    return c10::overflows<T>(scalar.toLong());
  };
  switch (dtype) {
#define OUTBOARD_CASE(type, name) \
  case ScalarType::name:          \
    return exceeds(type{});
    OUTBOARD_CASE(uint8_t, Byte)
    OUTBOARD_CASE(int8_t, Char)
    OUTBOARD_CASE(int16_t, Short)
    OUTBOARD_CASE(int32_t, Int)
    OUTBOARD_CASE(int64_t, Long)
    OUTBOARD_CASE(c10::Half, Half)
    OUTBOARD_CASE(c10::BFloat16, BFloat16)
    OUTBOARD_CASE(float, Float)
    OUTBOARD_CASE(c10::complex<float>, ComplexFloat)
#undef OUTBOARD_CASE
    default:
      return false;
  }
}

}  // namespace

bool takes_number(ScalarType dtype, const at::Scalar& number, bool strict) {
  if (number.isComplex() && !at::isComplexType(dtype)) return false;
  if (strict && number.isBoolean() && dtype != ScalarType::Bool) return false;
  if (strict && number.isFloatingPoint() && at::isIntegralType(dtype, /*includeBool=*/true)) {
    return false;
  }
  return !overflows(number, dtype);
}

std::vector<int> number_arguments(const Overload& overload) {
  std::vector<int> numbers;
  for (int i = 0; i < static_cast<int>(overload.argument_count()); ++i) {
    c10::TypePtr type = overload.argument(i).type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (type->kind() == c10::TypeKind::NumberType) numbers.push_back(i);
  }
  return numbers;
}

bool takes_numbers(ScalarType dtype, const std::vector<int>& arguments, const Overload& overload,
                   const torch::jit::Stack& stack) {
  for (const int argument : arguments) {
    const c10::IValue& value = overload.read(stack, argument);
    if (value.isScalar() && !takes_number(dtype, value.toScalar())) return false;
  }
  return true;
}

}  // namespace outboard
