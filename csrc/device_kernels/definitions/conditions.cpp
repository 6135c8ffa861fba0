#include "device_kernels/definitions/conditions.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace outboard {

CallConditions::CallConditions(const Definition& definition, const Overload& overload)
    : overload_(overload), graph_(definition.graph), nodes_(definition.nodes("conditions")) {
  for (int i = 0; i < graph_->size(); ++i) {
    if (graph_->node(i).operation != ExpressionGraph::Operation::kName) continue;
    const int argument = overload.find(graph_->node(i).text);
    if (argument >= 0) arguments_.emplace_back(i, argument);
  }
  for (int i = 0; i < static_cast<int>(overload.argument_count()); ++i) {
    const auto length = overload.argument(i).N();
    const auto list = overload.argument(i).type()->cast<c10::ListType>();
    if (length.has_value() && list && list->getElementType()->kind() == c10::TypeKind::BoolType) {
      flags_.emplace_back(i, *length);
    }
  }
}

void CallConditions::set_arguments(Evaluation& evaluation, const torch::jit::Stack& stack) const {
  for (const auto& [node, argument] : arguments_) {
    evaluation.set(node, overload_.read(stack, argument));
  }
}

bool CallConditions::hold(const torch::jit::Stack& stack) const {
  if (nodes_.empty() && flags_.empty()) return true;
  Evaluation evaluation(*graph_);
  set_arguments(evaluation, stack);
  return evaluates([&] { return hold(stack, evaluation); });
}

bool CallConditions::hold(const torch::jit::Stack& stack, Evaluation& evaluation) const {
  const bool lengths = std::all_of(flags_.begin(), flags_.end(), [&](const auto& flags) {
    const c10::IValue& value = overload_.read(stack, flags.first);
    return value.isList() && static_cast<int>(value.toListRef().size()) == flags.second;
  });
  return lengths && std::all_of(nodes_.begin(), nodes_.end(),
                                [&](int node) { return evaluation.truth(node); });
}

}  // namespace outboard
