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

// Recursive descent; one function per level of precedence.
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
    Expression::Node node{operation};
    node.children.assign(children.begin(), children.end());
    expression_.nodes.push_back(std::move(node));
    return static_cast<int>(expression_.nodes.size()) - 1;
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
