#include "device_kernels/expressions/expression_operation.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace outboard {

using Kind = ExpressionValue::Kind;
using List = ExpressionValue::List;

ExpressionValue ExpressionValue::of(ExpressionNumber number) {
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
  if (argument.isInt()) return of(argument.toInt());
  if (argument.isBool()) return of(argument.toBool());
  if (argument.isDouble()) return of(argument.toDouble());
  if (argument.isTensor()) return of(argument.toTensor());
  if (argument.isIntList()) {
    List list;
    for (const int64_t element : argument.toIntList()) list.push_back(element);
    return of(std::move(list));
  }
  if (argument.isDoubleList()) {
    List list;
    for (const double element : argument.toDoubleList()) list.push_back(element);
    return of(std::move(list));
  }
  if (argument.isBoolList()) {
    List list;
    for (const bool element : argument.toBoolList()) list.push_back(element);
    return of(std::move(list));
  }
  if (argument.isTensorList() || argument.isOptionalTensorList()) {
    List given;
    for (const c10::IValue& element : argument.toListRef()) {
      given.push_back(element.isTensor() && element.toTensor().defined());
    }
    return of(std::move(given));
  }
  // An integer above those of 64 bits with a sign: its value does not matter, but it is given.
  if (argument.isScalar() && !argument.toScalar().isComplex()) {
    return of(argument.toScalar().to<double>());
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
      return number.truth();
    case Kind::kList:
      return !list.empty();
    case Kind::kText:
      return !text->empty();
    case Kind::kTensor:
      return tensor->defined();
  }
  return false;
}

const ExpressionNumber& ExpressionValue::as_number() const {
  TORCH_CHECK_VALUE(kind == Kind::kNumber, "an expression of a row needs a number here");
  return number;
}

const List& ExpressionValue::as_list() const {
  TORCH_CHECK_VALUE(kind == Kind::kList, "an expression of a row needs a list here");
  return list;
}

at::DimVector ExpressionValue::as_sizes() const {
  at::DimVector sizes;
  for (const ExpressionNumber& element : as_list()) sizes.push_back(element.as_integer());
  return sizes;
}

ExpressionValue Expression::evaluate(const std::vector<ExpressionValue>& values) const {
  return evaluate(static_cast<int>(parsed_->nodes.size()) - 1, values);
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

// More than any tensor has dimensions, and any kernel takes numbers.
constexpr int64_t kLongestList = 1 << 16;

size_t length_of_list(int64_t length) {
  TORCH_CHECK_VALUE(length >= 0 && length <= kLongestList,
                    "an expression of a row asks for a list of ", length, " numbers");
  return static_cast<size_t>(length);
}

// Place in a list, counted from its end if negative.
size_t place(int64_t index, size_t size, const std::string& source) {
  const int64_t at = index < 0 ? index + static_cast<int64_t>(size) : index;
  TORCH_CHECK_VALUE(at >= 0 && at < static_cast<int64_t>(size), "the expression '", source,
                    "' of a row asks for place ", index, " of a list of ", size);
  return static_cast<size_t>(at);
}

}  // namespace

ExpressionValue Expression::evaluate(int index, const std::vector<ExpressionValue>& values) const {
  const Node& node = parsed_->nodes[index];
  const auto child = [&](size_t i) { return evaluate(node.children[i], values); };
  const auto number = [&](size_t i) { return child(i).as_number(); };
  const auto integer = [&](size_t i) { return child(i).as_integer(); };
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
      return values[slots_[node.name]];
    case Operation::kList: {
      List list;
      for (size_t i = 0; i < node.children.size(); ++i) list.push_back(number(i));
      return ExpressionValue::of(std::move(list));
    }
    case Operation::kElement: {
      const ExpressionValue value = child(0);
      const List& list = value.as_list();
      return ExpressionValue::of(list[place(integer(1), list.size(), parsed_->source)]);
    }
    case Operation::kSlice: {
      const ExpressionValue value = child(0);
      const List& list = value.as_list();
      const auto size = static_cast<int64_t>(list.size());
      const auto bound = [&](size_t i, int64_t otherwise) {
        if (node.children[i] < 0) return otherwise;
        const int64_t at = integer(i);
        return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
      };
      const auto first = static_cast<size_t>(bound(1, 0));
      const auto last = std::max(static_cast<size_t>(bound(2, size)), first);
      return ExpressionValue::of(List(list.begin() + first, list.begin() + last));
    }
    case Operation::kChoose:
      return child(child(0).truth() ? 1 : 2);
    case Operation::kOr:
      return ExpressionValue::of(child(0).truth() || child(1).truth());
    case Operation::kAnd:
      return ExpressionValue::of(child(0).truth() && child(1).truth());
    case Operation::kNot:
      return ExpressionValue::of(!child(0).truth());
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
      return ExpressionValue::of(number(0).floor_divide(number(1)));
    case Operation::kRemainder:
      return ExpressionValue::of(number(0).remainder(number(1)));
    case Operation::kEqual:
      return ExpressionValue::of(equal(child(0), child(1)));
    case Operation::kUnequal:
      return ExpressionValue::of(!equal(child(0), child(1)));
    case Operation::kLess:
      return ExpressionValue::of(number(0) < number(1));
    case Operation::kLessEqual:
      return ExpressionValue::of(number(0) <= number(1));
    case Operation::kGreater:
      return ExpressionValue::of(number(0) > number(1));
    case Operation::kGreaterEqual:
      return ExpressionValue::of(number(0) >= number(1));
    default:
      return call(node, values);
  }
}

ExpressionValue Expression::call(const Node& node,
                                 const std::vector<ExpressionValue>& values) const {
  const auto child = [&](size_t i) { return evaluate(node.children[i], values); };
  const auto number = [&](size_t i) { return child(i).as_number(); };
  const auto integer = [&](size_t i) { return child(i).as_integer(); };
  const auto tensor = [&](size_t i) -> const at::Tensor& {
    const ExpressionValue value = child(i);
    TORCH_CHECK_VALUE(value.kind == Kind::kTensor && value.tensor->defined(), "the expression '",
                      parsed_->source, "' of a row needs a tensor");
    return *value.tensor;
  };
  switch (node.operation) {
    case Operation::kNumel:
      return ExpressionValue::of(tensor(0).numel());
    case Operation::kDims:
      return ExpressionValue::of(tensor(0).dim());
    case Operation::kSize: {
      const at::Tensor& of = tensor(0);
      const int64_t d = c10::maybe_wrap_dim(integer(1), of.dim());
      // A tensor without dimensions counts as one of one element.
      return ExpressionValue::of(of.dim() == 0 ? int64_t{1} : of.size(d));
    }
    case Operation::kStride: {
      const at::Tensor& of = tensor(0);
      const int64_t d = c10::maybe_wrap_dim(integer(1), of.dim());
      return ExpressionValue::of(of.dim() == 0 ? int64_t{1} : of.stride(d));
    }
    case Operation::kSizes: {
      List list;
      for (const int64_t size : tensor(0).sizes()) list.push_back(size);
      return ExpressionValue::of(std::move(list));
    }
    case Operation::kRowMajor:
      return ExpressionValue::of(int64_t{tensor(0).is_contiguous()});
    case Operation::kBytes:
      return ExpressionValue::of(static_cast<int64_t>(tensor(0).element_size()));
    case Operation::kFloating:
      return ExpressionValue::of(at::isFloatingType(tensor(0).scalar_type()));
    case Operation::kGiven: {
      const ExpressionValue value = child(0);
      const bool undefined = value.kind == Kind::kTensor && !value.tensor->defined();
      return ExpressionValue::of(value.kind != Kind::kNone && !undefined);
    }
    case Operation::kEither: {
      ExpressionValue value = child(0);
      const bool undefined = value.kind == Kind::kTensor && !value.tensor->defined();
      return value.kind == Kind::kNone || undefined ? child(1) : value;
    }
    case Operation::kLen:
      return ExpressionValue::of(static_cast<int64_t>(child(0).as_list().size()));
    case Operation::kProd:
    case Operation::kSum: {
      const ExpressionValue value = child(0);
      const bool product = node.operation == Operation::kProd;
      ExpressionNumber result = product ? 1 : 0;
      for (const ExpressionNumber& element : value.as_list()) {
        result = product ? result * element : result + element;
      }
      return ExpressionValue::of(result);
    }
    case Operation::kMinOf:
    case Operation::kMaxOf: {
      const ExpressionValue value = child(0);
      const List& list = value.as_list();
      TORCH_CHECK_VALUE(!list.empty(), "the expression '", parsed_->source,
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
        const auto from_end = -1 - static_cast<int64_t>(i / 2);
        ExpressionNumber& size =
            sizes.list[place(from_end, sizes.as_list().size(), parsed_->source)];
        size = size + list[i];
      }
      for (const ExpressionNumber& size : sizes.list) {
        TORCH_CHECK_VALUE(size >= 0, "the expression '", parsed_->source,
                          "' of a row has a negative size");
      }
      return sizes;
    }
    case Operation::kDrop: {
      ExpressionValue value = child(0);
      // The only dimension of a tensor without dimensions.
      if (value.as_list().empty()) return value;
      value.list.erase(value.list.begin() + place(integer(1), value.list.size(), parsed_->source));
      return value;
    }
    case Operation::kSet: {
      ExpressionValue value = child(0);
      value.list[place(integer(1), value.as_list().size(), parsed_->source)] = number(2);
      return value;
    }
    case Operation::kFill: {
      const ExpressionNumber element = number(0);
      return ExpressionValue::of(List(length_of_list(integer(1)), element));
    }
    case Operation::kBroadcast: {
      const at::DimVector sizes =
          at::infer_size_dimvector(child(0).as_sizes(), child(1).as_sizes());
      return ExpressionValue::of(List(sizes.begin(), sizes.end()));
    }
    case Operation::kEach: {
      ExpressionValue value = child(0);
      const size_t count = length_of_list(integer(1));
      if (value.kind == Kind::kNumber) return ExpressionValue::of(List(count, value.number));
      if (value.as_list().size() == 1) return ExpressionValue::of(List(count, value.list[0]));
      TORCH_CHECK_VALUE(value.list.size() == count, "the expression '", parsed_->source,
                        "' of a row needs a list of ", count);
      return value;
    }
    case Operation::kWrap:
      return ExpressionValue::of(c10::maybe_wrap_dim(integer(0), integer(1)));
    case Operation::kMin:
    case Operation::kMax: {
      ExpressionValue value = child(0);
      const ExpressionNumber bound = number(1);
      const auto chosen = [&](const ExpressionNumber& element) {
        return node.operation == Operation::kMin ? std::min(element, bound)
                                                 : std::max(element, bound);
      };
      if (value.kind != Kind::kList) return ExpressionValue::of(chosen(value.as_number()));
      for (ExpressionNumber& element : value.list) element = chosen(element);
      return value;
    }
    case Operation::kFloor:
      return ExpressionValue::of(number(0).floor());
    case Operation::kCeil:
      return ExpressionValue::of(number(0).ceil());
    case Operation::kAbs:
      return ExpressionValue::of(number(0).abs());
    case Operation::kLog1p:
      return ExpressionValue::of(std::log1p(number(0).as_real()));
    case Operation::kLog2Ceil: {
      const ExpressionNumber n = number(0);
      int64_t passes = 0;
      while (passes < 62 && n > ExpressionNumber(int64_t{1} << passes)) ++passes;
      TORCH_CHECK_VALUE(passes < 62, "the expression '", parsed_->source,
                        "' of a row has a large logarithm");
      return ExpressionValue::of(passes);
    }
    case Operation::kReal: {
      return ExpressionValue::of(number(0).as_real());
    }
    default:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "the expression '", parsed_->source, "' has an unknown operation");
}

}  // namespace outboard
