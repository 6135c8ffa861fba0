#include "engines/expression.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
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

enum class Expression::Operation : uint8_t {
  kNumber,
  kText,
  kSlot,
  kList,
  kElement,
  kSlice,
  kChoose,
  kOr,
  kAnd,
  kNot,
  kNegate,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kEqual,
  kUnequal,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kNumel,
  kDims,
  kSize,
  kStride,
  kSizes,
  kBytes,
  kFloating,
  kGiven,
  kEither,
  kLen,
  kProd,
  kSum,
  kDrop,
  kSet,
  kInsert,
  kFill,
  kBroadcast,
  kEach,
  kWrap,
  kMin,
  kMax,
  kFloor,
  kCeil,
  kAbs,
  kLog2Ceil,
  kLog1p,
  kMinOf,
  kMaxOf,
  kPaddedSizes,
};

// Recursive descent; one function per level of precedence.
class ExpressionParser {
 public:
  using Operation = Expression::Operation;

  ExpressionParser(Expression& expression, const std::string& text, const Expression::Slots& slots)
      : expression_(expression), text_(text), slots_(slots) {}

  void parse() {
    choose();
    skip();
    require(at_ == text_.size());
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(const char* token) {
    skip();
    const size_t length = std::char_traits<char>::length(token);
    if (text_.compare(at_, length, token) != 0) return false;
    at_ += length;
    return true;
  }
  void require(bool condition) const {
    TORCH_CHECK_VALUE(condition, "the expression '", text_, "' of a row cannot be read at place ",
                      at_);
  }
  int add(Operation operation, std::initializer_list<int> children) {
    Expression::Node node{operation};
    node.children.assign(children.begin(), children.end());
    expression_.nodes_.push_back(std::move(node));
    return static_cast<int>(expression_.nodes_.size()) - 1;
  }

  int choose() {
    const int condition = either();
    if (!take("?")) return condition;
    const int first = choose();
    require(take(":"));
    return add(Operation::kChoose, {condition, first, choose()});
  }
  int either() {
    int left = both();
    while (take("||")) left = add(Operation::kOr, {left, both()});
    return left;
  }
  int both() {
    int left = comparison();
    while (take("&&")) left = add(Operation::kAnd, {left, comparison()});
    return left;
  }
  int comparison() {
    int left = total();
    static const std::pair<const char*, Operation> tokens[] = {
        {"==", Operation::kEqual},     {"!=", Operation::kUnequal},
        {"<=", Operation::kLessEqual}, {">=", Operation::kGreaterEqual},
        {"<", Operation::kLess},       {">", Operation::kGreater}};
    for (const auto& [token, operation] : tokens) {
      if (take(token)) return add(operation, {left, total()});
    }
    return left;
  }
  int total() {
    int left = product();
    for (;;) {
      if (take("+")) {
        left = add(Operation::kAdd, {left, product()});
      } else if (take("-")) {
        left = add(Operation::kSubtract, {left, product()});
      } else {
        return left;
      }
    }
  }
  int product() {
    int left = unary();
    for (;;) {
      if (take("*")) {
        left = add(Operation::kMultiply, {left, unary()});
      } else if (take("//")) {
        left = add(Operation::kFloorDivide, {left, unary()});
      } else if (take("/")) {
        left = add(Operation::kDivide, {left, unary()});
      } else if (take("%")) {
        left = add(Operation::kRemainder, {left, unary()});
      } else {
        return left;
      }
    }
  }
  int unary() {
    if (take("-")) return add(Operation::kNegate, {unary()});
    skip();
    if (at_ + 1 < text_.size() && text_[at_] == '!' && text_[at_ + 1] != '=') {
      ++at_;
      return add(Operation::kNot, {unary()});
    }
    return element();
  }
  int element() {
    int value = primary();
    while (take("[")) {
      int first = -1;
      if (!take(":")) {
        first = choose();
        if (take("]")) {
          value = add(Operation::kElement, {value, first});
          continue;
        }
        require(take(":"));
      }
      int last = -1;
      if (!take("]")) {
        last = choose();
        require(take("]"));
      }
      value = add(Operation::kSlice, {value, first, last});
    }
    return value;
  }
  int primary() {
    if (take("(")) {
      const int value = choose();
      require(take(")"));
      return value;
    }
    if (take("[")) {
      c10::SmallVector<int, 4> elements = arguments("]");
      const int value = add(Operation::kList, {});
      expression_.nodes_[value].children = std::move(elements);
      return value;
    }
    if (take("\"")) {
      const size_t end = text_.find('"', at_);
      require(end != std::string::npos);
      const int value = add(Operation::kText, {});
      expression_.nodes_[value].text = text_.substr(at_, end - at_);
      at_ = end + 1;
      return value;
    }
    skip();
    require(at_ < text_.size());
    if (std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      size_t length = 0;
      const double number = std::stod(text_.substr(at_), &length);
      at_ += length;
      const int value = add(Operation::kNumber, {});
      expression_.nodes_[value].number = number;
      return value;
    }
    return named();
  }
  c10::SmallVector<int, 4> arguments(const char* end) {
    c10::SmallVector<int, 4> result;
    if (take(end)) return result;
    do {
      result.push_back(choose());
    } while (take(","));
    require(take(end));
    return result;
  }
  int named() {
    const size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      ++at_;
    }
    require(at_ > start);
    const std::string name = text_.substr(start, at_ - start);
    if (!take("(")) {
      const int value = add(Operation::kSlot, {});
      expression_.nodes_[value].slot = slots_(name);
      return value;
    }
    struct Function {
      Operation operation;
      size_t arguments;
    };
    static const std::map<std::string, Function> functions = {
        {"numel", {Operation::kNumel, 1}},
        {"dims", {Operation::kDims, 1}},
        {"size", {Operation::kSize, 2}},
        {"stride", {Operation::kStride, 2}},
        {"sizes", {Operation::kSizes, 1}},
        {"bytes", {Operation::kBytes, 1}},
        {"floating", {Operation::kFloating, 1}},
        {"given", {Operation::kGiven, 1}},
        {"either", {Operation::kEither, 2}},
        {"len", {Operation::kLen, 1}},
        {"prod", {Operation::kProd, 1}},
        {"sum", {Operation::kSum, 1}},
        {"drop", {Operation::kDrop, 2}},
        {"set", {Operation::kSet, 3}},
        {"insert", {Operation::kInsert, 3}},
        {"fill", {Operation::kFill, 2}},
        {"broadcast", {Operation::kBroadcast, 2}},
        {"each", {Operation::kEach, 2}},
        {"wrap", {Operation::kWrap, 2}},
        {"min", {Operation::kMin, 2}},
        {"max", {Operation::kMax, 2}},
        {"floor", {Operation::kFloor, 1}},
        {"ceil", {Operation::kCeil, 1}},
        {"abs", {Operation::kAbs, 1}},
        {"log2_ceil", {Operation::kLog2Ceil, 1}},
        {"min_of", {Operation::kMinOf, 1}},
        {"max_of", {Operation::kMaxOf, 1}},
        {"padded_sizes", {Operation::kPaddedSizes, 2}},
        {"log1p", {Operation::kLog1p, 1}},
    };
    const auto found = functions.find(name);
    c10::SmallVector<int, 4> given = arguments(")");
    TORCH_CHECK_VALUE(found != functions.end() && found->second.arguments == given.size(),
                      "the expression '", text_, "' of a row calls '", name, "' with ",
                      given.size(), " arguments, which does not exist");
    const int value = add(found->second.operation, {});
    expression_.nodes_[value].children = std::move(given);
    return value;
  }

  Expression& expression_;
  const std::string& text_;
  const Expression::Slots& slots_;
  size_t at_ = 0;
};

Expression::Expression(const std::string& text, const Slots& slots) : source_(text) {
  ExpressionParser(*this, text, slots).parse();
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
