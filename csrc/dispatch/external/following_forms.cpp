#include "dispatch/external/following_forms.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace outboard {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// The overloads of every operator of aten, which PyTorch has all defined when the kit is loaded.
const std::vector<std::string>& overloads_of(const std::string& name) {
  static const auto* known = [] {
    auto* all = new std::map<std::string, std::vector<std::string>>;
    for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
      if (op.name.starts_with("aten::")) (*all)[op.name].push_back(op.overload_name);
    }
    return all;
  }();
  static const auto* none = new std::vector<std::string>;
  const auto found = known->find(name);
  return found != known->end() ? found->second : *none;
}

bool same_inputs(const std::vector<c10::Argument>& a, const std::vector<c10::Argument>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.name() == y.name() && *x.type() == *y.type();
  });
}

// Which implementation allocates and calls the out= form; Undefined: none does.
c10::DispatchKey composing_key(const c10::OperatorHandle& op) {
  constexpr auto kStructured = c10::DispatchKey::CompositeExplicitAutogradNonFunctional;
  constexpr auto kExplicit = c10::DispatchKey::CompositeExplicitAutograd;
  if (op.hasKernelForDispatchKey(kStructured)) return kStructured;
  if (op.hasKernelForDispatchKey(kExplicit) && !op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
    return kExplicit;
  }
  return c10::DispatchKey::Undefined;
}

thread_local const Operator* t_followed = nullptr;

class FollowingKernel final : public c10::OperatorKernel {
 public:
  explicit FollowingKernel(const Operator& out) : out_(out) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    struct Scope {
      explicit Scope(const Operator* out) : before(std::exchange(t_followed, out)) {}
      ~Scope() { t_followed = before; }
      const Operator* const before;
    };
    const Scope scope(&out_);
    TORCH_INTERNAL_ASSERT(run_composite(op, stack));
  }

 private:
  const Operator& out_;
};

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
  for (const std::string& name : {schema.name(), schema.name() + "_"}) {
    for (const std::string& overload : overloads_of(name)) {
      const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
      if (!op.has_value() || composing_key(*op) == c10::DispatchKey::Undefined) continue;
      if (same_inputs(op->schema().arguments(), inputs)) forms.push_back(*op);
    }
  }
  return forms;
}

RoutedKernel following_kernel(const Operator& out, const RoutedKernel& kernel) {
  RoutedKernel row;
  row.kernel = c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<FollowingKernel>(out));
  row.source = kernel.source;
  row.placement = Placement::kDevice;
  row.device = kernel.device;
  row.dtypes = kernel.dtypes;
  row.origin = kernel.origin;
  row.follows = true;
  return row;
}

bool runs_for_following_form(const Operator& out) noexcept { return t_followed == &out; }

bool run_composite(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::DispatchKey key = composing_key(op);
  if (key == c10::DispatchKey::Undefined) return false;
  // The out= form has no derivative, and autograd has had its turn.
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.callBoxedForDispatchKey(key, *stack);
  return true;
}

}  // namespace outboard
