#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "device_kernels/expressions/expression_operation.h"

namespace outboard {

// Recursive descent.
class ExpressionParser {
 public:
  using Operation = Expression::Operation;

  explicit ExpressionParser(Expression::Parsed& expression)
      : expression_(expression), text_(expression.source) {}

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
    TORCH_CHECK_VALUE(condition, "the expression '", text_, "' cannot be read at place ", at_);
  }
  int add(Operation operation, std::initializer_list<int> children) {
    Expression::Node node;
    node.operation = operation;
    node.children.assign(children.begin(), children.end());
    expression_.nodes.push_back(std::move(node));
    return static_cast<int>(expression_.nodes.size()) - 1;
  }

  int choose() {
    const int condition = binary(0);
    if (!take("?")) return condition;
    const int first = choose();
    require(take(":"));
    return add(Operation::kChoose, {condition, first, choose()});
  }
  // Operations with two operands, those that bind least first.
  struct Binary {
    const char* token;
    int level;
    Operation operation;
  };
  static constexpr int kComparison = 2;  // one of these alone
  static constexpr int kLevels = 5;
  static constexpr Binary kBinary[] = {
      {"||", 0, Operation::kOr},        {"&&", 1, Operation::kAnd},
      {"==", 2, Operation::kEqual},     {"!=", 2, Operation::kUnequal},
      {"<=", 2, Operation::kLessEqual}, {">=", 2, Operation::kGreaterEqual},
      {"<", 2, Operation::kLess},       {">", 2, Operation::kGreater},
      {"+", 3, Operation::kAdd},        {"-", 3, Operation::kSubtract},
      {"*", 4, Operation::kMultiply},   {"//", 4, Operation::kFloorDivide},
      {"/", 4, Operation::kDivide},     {"%", 4, Operation::kRemainder},
  };
  int binary(int level) {
    if (level == kLevels) return unary();
    int left = binary(level + 1);
    for (;;) {
      const Binary* found =
          std::find_if(std::begin(kBinary), std::end(kBinary),
                       [&](const Binary& b) { return b.level == level && take(b.token); });
      if (found == std::end(kBinary)) return left;
      left = add(found->operation, {left, binary(level + 1)});
      if (level == kComparison) return left;
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
      expression_.nodes[value].children = std::move(elements);
      return value;
    }
    if (take("\"")) {
      const size_t end = text_.find('"', at_);
      require(end != std::string::npos);
      const int value = add(Operation::kText, {});
      expression_.nodes[value].text = text_.substr(at_, end - at_);
      at_ = end + 1;
      return value;
    }
    skip();
    require(at_ < text_.size());
    if (std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      const auto parsed = parse_number(std::string_view(text_).substr(at_));
      require(parsed.has_value());
      at_ += parsed->length;
      const int value = add(Operation::kNumber, {});
      expression_.nodes[value].number = parsed->number;
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
      auto& names = expression_.names;
      const auto known = std::find(names.begin(), names.end(), name);
      expression_.nodes[value].name = static_cast<int>(known - names.begin());
      if (known == names.end()) names.push_back(name);
      return value;
    }
    const Expression::OperationRow* function = Expression::find_operation(name);
    TORCH_CHECK_VALUE(function != nullptr, "the expression '", expression_.source, "' calls '",
                      name, "', which does not exist");
    c10::SmallVector<int, 4> given = arguments(")");
    const size_t takes = std::char_traits<char>::length(function->takes);
    TORCH_CHECK_VALUE(takes == given.size(), "the expression '", expression_.source, "' calls '",
                      name, "' with ", given.size(), " arguments; it takes ", takes);
    const int value = add(function->operation, {});
    expression_.nodes[value].children = std::move(given);
    return value;
  }

  Expression::Parsed& expression_;
  const std::string& text_;
  size_t at_ = 0;
};

const Expression::Parsed* Expression::parse(const std::string& text) {
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<std::string, std::unique_ptr<const Parsed>>;
  std::lock_guard<std::mutex> lock(*mutex);
  auto& parsed = (*known)[text];
  if (parsed == nullptr) {
    auto made = std::make_unique<Parsed>(Parsed{text, {}, {}});
    ExpressionParser(*made).parse();
    parsed = std::move(made);
  }
  return parsed.get();
}

}  // namespace outboard
