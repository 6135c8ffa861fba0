#include "device_kernels/expressions/expression_value.h"

#include <c10/util/Exception.h>

namespace outboard {

using Kind = ExpressionValue::Kind;

ExpressionValue ExpressionValue::none() {
  ExpressionValue value;
  value.kind = Kind::kNone;
  return value;
}

ExpressionValue ExpressionValue::of(ExpressionNumber number) {
  ExpressionValue value;
  value.kind = Kind::kNumber;
  value.number = number;
  return value;
}

ExpressionValue ExpressionValue::of(const List& list) {
  ExpressionValue value;
  value.kind = Kind::kList;
  value.list = &list;
  return value;
}

ExpressionValue ExpressionValue::of(const std::string& string) {
  ExpressionValue value;
  value.kind = Kind::kString;
  value.string = &string;
  return value;
}

ExpressionValue ExpressionValue::of(const at::Tensor& tensor) {
  ExpressionValue value;
  value.kind = Kind::kTensor;
  value.tensor = &tensor;
  return value;
}

ExpressionValue ExpressionValue::of_argument(const c10::IValue& argument) {
  if (argument.isTensor()) return of(argument.toTensor());
  if (argument.isString()) return of(argument.toStringRef());
  ExpressionValue value = none();
  if (argument.isTensorList() || argument.isOptionalTensorList()) {
    value.kind = Kind::kTensors;
    value.tensors = &argument;
  } else if (argument.isScalar()) {
    const at::Scalar scalar = argument.toScalar();
    if (argument.isInt()) {
      value = of(argument.toInt());
    } else if (argument.isBool()) {
      value = of(argument.toBool());
    } else if (!scalar.isComplex()) {
      // Of an integer above those of 64 bits with a sign the value does not matter.
      value = of(scalar.to<double>());
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
