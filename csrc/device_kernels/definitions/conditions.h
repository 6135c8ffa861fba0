// What a call must be for an operator definition to serve it.
#pragma once

#include <ATen/core/stack.h>

#include <memory>
#include <utility>
#include <vector>

#include "device_kernels/expressions/expression.h"
#include "device_kernels/definitions/overload.h"
#include "device_kernels/definitions/definition.h"
#include "runtime/export.h"

namespace outboard {

// A definition's property `conditions`: nodes whose names are arguments. Lists of flags have to be
// as long as the schema says.
class OUTBOARD_API CallConditions {
 public:
  CallConditions(const Definition& definition, const Overload& overload);

  bool hold(const torch::jit::Stack& stack) const;
  // With an evaluation that knows the names.
  bool hold(const torch::jit::Stack& stack, Evaluation& evaluation) const;

  const ExpressionGraph& graph() const { return *graph_; }
  // Gives an evaluation the arguments of a call that the graph names.
  void set_arguments(Evaluation& evaluation, const torch::jit::Stack& stack) const;

 private:
  const Overload& overload_;
  const std::shared_ptr<const ExpressionGraph> graph_;
  const std::vector<int> nodes_;
  std::vector<std::pair<int, int>> arguments_;  // nodes, and which arguments they name
  std::vector<std::pair<int, int>> flags_;      // arguments, and how many they are
};

// Whether what a call brings suits a definition, which `function` evaluates. If not, the host knows
// the error.
template <class Function>
bool evaluates(const Function& function) {
  try {
    return function();
  } catch (const c10::ValueError&) {
    return false;
  } catch (const c10::IndexError&) {
    return false;
  }
}

}  // namespace outboard
