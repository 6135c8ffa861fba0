#include "engines/expression_operation.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace outboard {

using Kind = ExpressionValue::Kind;
using List = ExpressionValue::List;

ExpressionValue ExpressionValue::of(double number) {
  ExpressionValue value;
  value.kind = Kind::kNumber;
  value.number = number;
  return value;
}

ExpressionValue ExpressionValue::of(List list) {
  ExpressionValue value;
  value.kind = Kind::kList;
  value.list = std::move(list);
  return value;
}

ExpressionValue ExpressionValue::of(const at::Tensor& tensor) {
  ExpressionValue value;
  value.kind = Kind::kTensor;
  value.tensor = &tensor;
  return value;
}

ExpressionValue ExpressionValue::of(const c10::IValue& argument) {
  ExpressionValue value;
  if (argument.isInt()) return of(static_cast<double>(argument.toInt()));
  if (argument.isBool()) return of(argument.toBool() ? 1.0 : 0.0);
  if (argument.isDouble()) return of(argument.toDouble());
  if (argument.isTensor()) return of(argument.toTensor());
  if (argument.isIntList()) {
    List list;
    for (const int64_t element : argument.toIntList()) list.push_back(static_cast<double>(element));
    return of(std::move(list));
  }
  if (argument.isDoubleList()) {
    List list;
    for (const double element : argument.toDoubleList()) list.push_back(element);
    return of(std::move(list));
  }
  if (argument.isBoolList()) {
    List list;
    for (const bool element : argument.toBoolList()) list.push_back(element ? 1.0 : 0.0);
    return of(std::move(list));
  }
  if (argument.isTensorList() || argument.isOptionalTensorList()) {
    List given;
    for (const c10::IValue& element : argument.toListRef()) {
      given.push_back(element.isTensor() && element.toTensor().defined() ? 1.0 : 0.0);
    }
    return of(std::move(given));
  }
  if (argument.isString()) {
    value.kind = Kind::kText;
    value.text = &argument.toStringRef();
  }
  return value;
}

bool ExpressionValue::truth() const {
  switch (kind) {
    case Kind::kNone:
      return false;
    case Kind::kNumber:
      return number != 0;
    case Kind::kList:
      return !list.empty();
    case Kind::kText:
      return !text->empty();
    case Kind::kTensor:
      return tensor->defined();
  }
  return false;
}

double ExpressionValue::as_number() const {
  TORCH_CHECK_VALUE(kind == Kind::kNumber, "an expression of a row needs a number here");
  return number;
}

const List& ExpressionValue::as_list() const {
  TORCH_CHECK_VALUE(kind == Kind::kList, "an expression of a row needs a list here");
  return list;
}

at::DimVector ExpressionValue::as_sizes() const {
  at::DimVector sizes;
  for (const double element : as_list()) sizes.push_back(static_cast<int64_t>(element));
  return sizes;
}

ExpressionValue Expression::evaluate(const std::vector<ExpressionValue>& values) const {
  return evaluate(static_cast<int>(nodes_.size()) - 1, values);
}

namespace {

bool equal(const ExpressionValue& a, const ExpressionValue& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kNumber:
      return a.number == b.number;
    case Kind::kList:
      return a.list == b.list;
    case Kind::kText:
      return *a.text == *b.text;
    case Kind::kTensor:
      return a.tensor->is_same(*b.tensor);
    case Kind::kNone:
      return true;
  }
  return false;
}

int64_t dimension(double d, const at::Tensor& tensor) {
  return c10::maybe_wrap_dim(static_cast<int64_t>(d), tensor.dim());
}

// Place in a list, counted from its end if negative.
size_t place(double index, size_t size, const std::string& source) {
  const double at = index < 0 ? index + static_cast<double>(size) : index;
  TORCH_CHECK_VALUE(at >= 0 && at < static_cast<double>(size), "the expression '", source,
                    "' of a row asks for place ", index, " of a list of ", size);
  return static_cast<size_t>(at);
}

}  // namespace

ExpressionValue Expression::evaluate(int index, const std::vector<ExpressionValue>& values) const {
  const Node& node = nodes_[index];
  const auto child = [&](size_t i) { return evaluate(node.children[i], values); };
  const auto number = [&](size_t i) { return child(i).as_number(); };
  switch (node.operation) {
    case Operation::kNumber:
      return ExpressionValue::of(node.number);
    case Operation::kText: {
      ExpressionValue value;
      value.kind = Kind::kText;
      value.text = &node.text;
      return value;
    }
    case Operation::kSlot:
      return values[node.slot];
    case Operation::kList: {
      List list;
      for (size_t i = 0; i < node.children.size(); ++i) list.push_back(number(i));
      return ExpressionValue::of(std::move(list));
    }
    case Operation::kElement: {
      const ExpressionValue value = child(0);
      const List& list = value.as_list();
      return ExpressionValue::of(list[place(number(1), list.size(), source_)]);
    }
    case Operation::kSlice: {
      const ExpressionValue value = child(0);
      const List& list = value.as_list();
      const auto size = static_cast<double>(list.size());
      const auto bound = [&](size_t i, double otherwise) {
        if (node.children[i] < 0) return otherwise;
        const double at = number(i);
        return std::min(std::max(at < 0 ? at + size : at, 0.0), size);
      };
      const auto first = static_cast<size_t>(bound(1, 0));
      const auto last = std::max(static_cast<size_t>(bound(2, size)), first);
      return ExpressionValue::of(List(list.begin() + first, list.begin() + last));
    }
    case Operation::kChoose:
      return child(child(0).truth() ? 1 : 2);
    case Operation::kOr:
      return ExpressionValue::of(child(0).truth() || child(1).truth() ? 1.0 : 0.0);
    case Operation::kAnd:
      return ExpressionValue::of(child(0).truth() && child(1).truth() ? 1.0 : 0.0);
    case Operation::kNot:
      return ExpressionValue::of(child(0).truth() ? 0.0 : 1.0);
    case Operation::kNegate:
      return ExpressionValue::of(-number(0));
    case Operation::kAdd: {
      ExpressionValue left = child(0);
      if (left.kind == Kind::kList) {
        const ExpressionValue right = child(1);
        left.list.append(right.as_list().begin(), right.as_list().end());
        return left;
      }
      return ExpressionValue::of(left.as_number() + number(1));
    }
    case Operation::kSubtract:
      return ExpressionValue::of(number(0) - number(1));
    case Operation::kMultiply:
      return ExpressionValue::of(number(0) * number(1));
    case Operation::kDivide:
      return ExpressionValue::of(number(0) / number(1));
    case Operation::kFloorDivide:
      return ExpressionValue::of(std::floor(number(0) / number(1)));
    case Operation::kRemainder: {
      const double divisor = number(1);
      const double value = number(0);
      return ExpressionValue::of(value - std::floor(value / divisor) * divisor);
    }
    case Operation::kEqual:
      return ExpressionValue::of(equal(child(0), child(1)) ? 1.0 : 0.0);
    case Operation::kUnequal:
      return ExpressionValue::of(equal(child(0), child(1)) ? 0.0 : 1.0);
    case Operation::kLess:
      return ExpressionValue::of(number(0) < number(1) ? 1.0 : 0.0);
    case Operation::kLessEqual:
      return ExpressionValue::of(number(0) <= number(1) ? 1.0 : 0.0);
    case Operation::kGreater:
      return ExpressionValue::of(number(0) > number(1) ? 1.0 : 0.0);
    case Operation::kGreaterEqual:
      return ExpressionValue::of(number(0) >= number(1) ? 1.0 : 0.0);
    default:
      return call(node, values);
  }
}

ExpressionValue Expression::call(const Node& node,
                                 const std::vector<ExpressionValue>& values) const {
  const auto child = [&](size_t i) { return evaluate(node.children[i], values); };
  const auto number = [&](size_t i) { return child(i).as_number(); };
  const auto tensor = [&](size_t i) -> const at::Tensor& {
    const ExpressionValue value = child(i);
    TORCH_CHECK_VALUE(value.kind == Kind::kTensor && value.tensor->defined(), "the expression '",
                      source_, "' of a row needs a tensor");
    return *value.tensor;
  };
  switch (node.operation) {
    case Operation::kNumel:
      return ExpressionValue::of(static_cast<double>(tensor(0).numel()));
    case Operation::kDims:
      return ExpressionValue::of(static_cast<double>(tensor(0).dim()));
    case Operation::kSize: {
      const at::Tensor& of = tensor(0);
      const int64_t d = dimension(number(1), of);
      // A tensor without dimensions counts as one of one element.
      return ExpressionValue::of(of.dim() == 0 ? 1.0 : static_cast<double>(of.size(d)));
    }
    case Operation::kStride: {
      const at::Tensor& of = tensor(0);
      const int64_t d = dimension(number(1), of);
      return ExpressionValue::of(of.dim() == 0 ? 1.0 : static_cast<double>(of.stride(d)));
    }
    case Operation::kSizes: {
      List list;
      for (const int64_t size : tensor(0).sizes()) list.push_back(static_cast<double>(size));
      return ExpressionValue::of(std::move(list));
    }
    case Operation::kBytes:
      return ExpressionValue::of(static_cast<double>(tensor(0).element_size()));
    case Operation::kFloating:
      return ExpressionValue::of(at::isFloatingType(tensor(0).scalar_type()) ? 1.0 : 0.0);
    case Operation::kGiven: {
      const ExpressionValue value = child(0);
      const bool undefined = value.kind == Kind::kTensor && !value.tensor->defined();
      return ExpressionValue::of(value.kind == Kind::kNone || undefined ? 0.0 : 1.0);
    }
    case Operation::kEither: {
      ExpressionValue value = child(0);
      const bool undefined = value.kind == Kind::kTensor && !value.tensor->defined();
      return value.kind == Kind::kNone || undefined ? child(1) : value;
    }
    case Operation::kLen:
      return ExpressionValue::of(static_cast<double>(child(0).as_list().size()));
    case Operation::kProd:
    case Operation::kSum: {
      const ExpressionValue value = child(0);
      const bool product = node.operation == Operation::kProd;
      double result = product ? 1 : 0;
      for (const double element : value.as_list()) {
        result = product ? result * element : result + element;
      }
      return ExpressionValue::of(result);
    }
    case Operation::kMinOf:
    case Operation::kMaxOf: {
      const ExpressionValue value = child(0);
      const List& list = value.as_list();
      TORCH_CHECK_VALUE(!list.empty(), "the expression '", source_,
                        "' of a row wants the extreme of an empty list");
      return ExpressionValue::of(node.operation == Operation::kMinOf
                                     ? *std::min_element(list.begin(), list.end())
                                     : *std::max_element(list.begin(), list.end()));
    }
    case Operation::kPaddedSizes: {
      ExpressionValue sizes = child(0);
      const ExpressionValue amounts = child(1);
      const List& list = amounts.as_list();
      for (size_t i = 0; i < list.size(); ++i) {
        sizes.list[place(-1.0 - static_cast<double>(i / 2), sizes.as_list().size(), source_)] +=
            list[i];
      }
      for (const double size : sizes.list) {
        TORCH_CHECK_VALUE(size >= 0, "the expression '", source_, "' of a row has a negative size");
      }
      return sizes;
    }
    case Operation::kDrop: {
      ExpressionValue value = child(0);
      // The only dimension of a tensor without dimensions.
      if (value.as_list().empty()) return value;
      value.list.erase(value.list.begin() + place(number(1), value.list.size(), source_));
      return value;
    }
    case Operation::kSet: {
      ExpressionValue value = child(0);
      value.list[place(number(1), value.as_list().size(), source_)] = number(2);
      return value;
    }
    case Operation::kInsert: {
      ExpressionValue value = child(0);
      const size_t at = place(number(1), value.as_list().size() + 1, source_);
      value.list.insert(value.list.begin() + at, number(2));
      return value;
    }
    case Operation::kFill: {
      const double element = number(0);
      return ExpressionValue::of(List(static_cast<size_t>(number(1)), element));
    }
    case Operation::kBroadcast: {
      const at::DimVector sizes =
          at::infer_size_dimvector(child(0).as_sizes(), child(1).as_sizes());
      return ExpressionValue::of(List(sizes.begin(), sizes.end()));
    }
    case Operation::kEach: {
      ExpressionValue value = child(0);
      const auto count = static_cast<size_t>(number(1));
      if (value.kind == Kind::kNumber) return ExpressionValue::of(List(count, value.number));
      if (value.as_list().size() == 1) return ExpressionValue::of(List(count, value.list[0]));
      TORCH_CHECK_VALUE(value.list.size() == count, "the expression '", source_,
                        "' of a row needs a list of ", count);
      return value;
    }
    case Operation::kWrap:
      return ExpressionValue::of(static_cast<double>(
          c10::maybe_wrap_dim(static_cast<int64_t>(number(0)), static_cast<int64_t>(number(1)))));
    case Operation::kMin:
      return ExpressionValue::of(std::min(number(0), number(1)));
    case Operation::kMax:
      return ExpressionValue::of(std::max(number(0), number(1)));
    case Operation::kFloor:
      return ExpressionValue::of(std::floor(number(0)));
    case Operation::kCeil:
      return ExpressionValue::of(std::ceil(number(0)));
    case Operation::kAbs:
      return ExpressionValue::of(std::abs(number(0)));
    case Operation::kLog1p:
      return ExpressionValue::of(std::log1p(number(0)));
    case Operation::kLog2Ceil: {
      double passes = 0;
      for (double n = 1; n < number(0); n *= 2) ++passes;
      return ExpressionValue::of(passes);
    }
    default:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "the expression '", source_, "' has an unknown operation");
}

}  // namespace outboard
