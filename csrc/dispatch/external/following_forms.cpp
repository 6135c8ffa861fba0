#include "dispatch/external/following_forms.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

namespace outboard {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool same_inputs(const std::vector<c10::Argument>& a, const std::vector<c10::Argument>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.name() == y.name() && *x.type() == *y.type();
  });
}

// The key of the implementation that allocates and calls the out= form; Undefined: there is none.
c10::DispatchKey composing_key(const c10::OperatorHandle& op) {
  constexpr auto kStructured = c10::DispatchKey::CompositeExplicitAutogradNonFunctional;
  constexpr auto kExplicit = c10::DispatchKey::CompositeExplicitAutograd;
  if (op.hasKernelForDispatchKey(kStructured)) return kStructured;
  if (op.hasKernelForDispatchKey(kExplicit) && !op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
    return kExplicit;
  }
  return c10::DispatchKey::Undefined;
}

void run_composed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // The out= form has no derivative, and autograd has had its turn.
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.callBoxedForDispatchKey(composing_key(op), *stack);
}

}  // namespace

std::vector<c10::OperatorHandle> following_forms(const c10::OperatorHandle& out) {
  std::vector<c10::OperatorHandle> forms;
  const c10::FunctionSchema& schema = out.schema();
  if (!schema.name().starts_with("aten::") || !out.hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
    return forms;
  }
  std::vector<c10::Argument> inputs;
  for (const c10::Argument& argument : schema.arguments()) {
    if (argument.is_out()) continue;
    if (is_written(argument)) return forms;
    inputs.push_back(argument);
  }
  if (inputs.size() == schema.arguments().size()) return forms;
  auto& dispatcher = c10::Dispatcher::singleton();
  // PyTorch has defined all operators of aten when the kit is loaded.
  static const auto* names = new std::vector<c10::OperatorName>(dispatcher.getAllOpNames());
  const std::string in_place = schema.name() + "_";
  for (const c10::OperatorName& name : *names) {
    if (name.name != schema.name() && name.name != in_place) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value() || composing_key(*op) == c10::DispatchKey::Undefined) continue;
    if (same_inputs(op->schema().arguments(), inputs)) forms.push_back(*op);
  }
  return forms;
}

RoutedKernel following_kernel(const RoutedKernel& out) {
  RoutedKernel row;
  row.kernel = c10::KernelFunction::makeFromBoxedFunction<&run_composed>();
  row.source = out.source;
  row.placement = Placement::kDevice;
  row.device = out.device;
  row.dtypes = out.dtypes;
  row.uses = std::make_shared<KernelUses>(out.uses->token);
  row.origin = out.origin;
  row.follows = true;
  return row;
}

}  // namespace outboard
