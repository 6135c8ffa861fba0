// Whether the values in an expression can be of the kinds that its operations take.
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "device_kernels/expressions/expression_operation.h"

namespace outboard {

using Kind = ExpressionValue::Kind;

namespace {

ExpressionKinds kinds_of(char letter) {
  switch (letter) {
    case 'n':
      return Kind::kNumber;
    case 'l':
      return Kind::kList;
    case 'm':
      return ExpressionKinds(Kind::kNumber) | Kind::kList;
    case 'x':
      return Kind::kText;
    case 't':
      return Kind::kTensor;
    default:
      return ExpressionKinds::any();
  }
}

std::string name_of(ExpressionKinds kinds) {
  static constexpr std::pair<Kind, const char*> names[] = {{Kind::kNumber, "a number"},
                                                           {Kind::kList, "a list"},
                                                           {Kind::kText, "a text"},
                                                           {Kind::kTensor, "a tensor"},
                                                           {Kind::kNone, "nothing"}};
  std::string text;
  for (const auto& [kind, name] : names) {
    if (kinds.has(kind)) text += (text.empty() ? "" : " or ") + std::string(name);
  }
  return text;
}

}  // namespace

ExpressionKinds ExpressionKinds::of(const c10::Argument& argument) {
  c10::TypePtr type = argument.type();
  if (const auto optional = type->cast<c10::OptionalType>()) {
    const c10::Argument given(argument.name(), optional->getElementType());
    return of(given) | Kind::kNone;
  }
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Kind::kTensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::FloatType:
      return Kind::kNumber;
    case c10::TypeKind::NumberType:  // a complex one is none
      return ExpressionKinds(Kind::kNumber) | Kind::kNone;
    case c10::TypeKind::StringType:
      return Kind::kText;
    case c10::TypeKind::ListType: {
      const c10::TypePtr element = type->castRaw<c10::ListType>()->getElementType();
      const bool known = element->isSubtypeOf(*c10::OptionalType::ofTensor()) ||
                         of(c10::Argument("", element)) == Kind::kNumber;
      return known ? ExpressionKinds(Kind::kList) : any();
    }
    default:
      return any();
  }
}

Expression::Expression(const std::string& text, const Slots& slots, ExpressionKinds kinds)
    : parsed_(parse(text)) {
  std::vector<Slot> found;
  for (const std::string& name : parsed_->names) {
    found.push_back(slots(name));
    slots_.push_back(found.back().index);
  }
  kinds_ = check(static_cast<int>(parsed_->nodes.size()) - 1, found);
  TORCH_CHECK_VALUE(!(kinds_ & kinds).none(), "the expression '", text, "' is ", name_of(kinds_),
                    " where ", name_of(kinds), " is needed");
}

ExpressionKinds Expression::check(int index, const std::vector<Slot>& slots) const {
  const Node& node = parsed_->nodes[index];
  if (node.operation == Operation::kSlot) return slots[node.name].kinds;
  const OperationRow& row = row_of(node.operation);
  c10::SmallVector<ExpressionKinds, 4> given;
  const size_t letters = std::strlen(row.takes);
  for (size_t i = 0; i < node.children.size(); ++i) {
    const ExpressionKinds taken = kinds_of(row.takes[std::min(i, letters - 1)]);
    if (node.children[i] < 0) continue;
    const ExpressionKinds kinds = check(node.children[i], slots);
    TORCH_CHECK_VALUE(!(kinds & taken).none(), "the expression '", parsed_->source, "' gives '",
                      row.name, "' ", name_of(kinds), " where it takes ", name_of(taken));
    given.push_back(kinds & taken);
  }
  if (node.operation == Operation::kAdd) {
    TORCH_CHECK_VALUE(!(given[0] & given[1]).none(), "the expression '", parsed_->source, "' adds ",
                      name_of(given[0]), " and ", name_of(given[1]));
    return given[0] & given[1];
  }
  if (row.gives[0] > '9') return kinds_of(row.gives[0]);
  ExpressionKinds kinds = given[row.gives[0] - '1'];
  for (const char* at = row.gives + 1; *at != 0; ++at) kinds = kinds | given[*at - '1'];
  return kinds;
}

const Expression::OperationRow& Expression::row_of(Operation operation) {
  static constexpr OperationRow rows[] = {
#define OUTBOARD_ROW(name, written, takes, gives) {Operation::k##name, written, takes, gives},
      OUTBOARD_OPERATIONS(OUTBOARD_ROW)
#undef OUTBOARD_ROW
  };
  return rows[static_cast<size_t>(operation)];
}

const Expression::OperationRow* Expression::find_operation(const std::string& function) {
  for (int i = static_cast<int>(Operation::kNumel); i <= static_cast<int>(Operation::kReal); ++i) {
    const OperationRow& row = row_of(static_cast<Operation>(i));
    if (function == row.name) return &row;
  }
  return nullptr;
}

}  // namespace outboard
