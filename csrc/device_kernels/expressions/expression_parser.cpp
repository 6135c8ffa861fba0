#include <c10/util/Exception.h>

#include <cctype>
#include <map>
#include <utility>

#include "device_kernels/expressions/expression_operation.h"

namespace outboard {

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
      const auto parsed = parse_number(std::string_view(text_).substr(at_));
      require(parsed.has_value());
      at_ += parsed->length;
      const int value = add(Operation::kNumber, {});
      expression_.nodes_[value].number = parsed->number;
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
        {"real", {Operation::kReal, 1}},
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

}  // namespace outboard
