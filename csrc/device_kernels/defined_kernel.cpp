#include "device_kernels/defined_kernel.h"

#include <ATen/Context.h>

#include <algorithm>

#include "dispatch/registration.h"
#include "dispatch/router.h"

namespace outboard {
namespace {

c10::OperatorHandle operator_of(const std::string& overload) {
  const auto handle = c10::Dispatcher::singleton().findSchema(operator_name(overload));
  TORCH_CHECK_VALUE(handle.has_value(), "operator '", overload,
                    "' does not exist; write it as 'aten::add.Tensor'");
  return *handle;
}

thread_local const DefinedAssert* t_outer_assert = nullptr;

}  // namespace

CallConditions::CallConditions(const Definition& definition, const Overload& overload)
    : overload_(overload), graph_(definition.graph), nodes_(definition.nodes("conditions")) {
  for (int i = 0; i < graph_->size(); ++i) {
    const std::string* name = graph_->name(i);
    const int argument = name != nullptr ? overload.find(*name) : -1;
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
  const bool lengths = std::ranges::all_of(flags_, [&](const auto& flags) {
    const c10::IValue& value = overload_.read(stack, flags.first);
    return value.isList() && static_cast<int>(value.toListRef().size()) == flags.second;
  });
  return lengths && std::ranges::all_of(nodes_, [&](int node) { return evaluation.truth(node); });
}

DefinedAssert::DefinedAssert(const Definition& definition, const std::string& overload) {
  const std::string& message = definition.string("report");
  const std::string& kind = definition.string("reports");
  if (kind.empty()) return;
  TORCH_CHECK_VALUE(kind == "IndexError" || kind == "RuntimeError", "it reports ", kind,
                    "; it can report IndexError or RuntimeError");
  if (kind == "RuntimeError") kind_ = DeviceAssert::Kind::kRuntimeError;
  message_ = c10::str(message.empty() ? "index out of range" : message, " in ", overload);
}

DeviceAssert& DefinedAssert::on(c10::DeviceIndex device) const {
  const DefinedAssert& used = t_outer_assert != nullptr ? *t_outer_assert : *this;
  return *used.flags_.find(
      device, [&] { return &DeviceAssert::interned(device, used.kind_, used.message_); });
}

AssertScope::AssertScope(const DefinedAssert& asserted) noexcept : outer_(t_outer_assert) {
  if (t_outer_assert == nullptr && asserted.reports()) t_outer_assert = &asserted;
}

AssertScope::~AssertScope() { t_outer_assert = outer_; }

C10_DEFINE_SHARED_REGISTRY(DefinitionKinds, DeviceKernel, const Definition&,
                           const c10::FunctionSchema&)

void DefinedKernel::alert() const {
  if (!alert_.empty()) at::globalContext().alertNotDeterministic(alert_);
}

std::shared_ptr<DeviceKernel> make_device_kernel(const Definition& definition,
                                                 const std::string& overload) {
  const std::string& first = definition.strings("overloads").at(0);
  std::string location = definition.string("location");
  if (!location.empty()) location += ": ";
  TORCH_CHECK_VALUE(DefinitionKinds()->Has(definition.kind), location, "the definition of ", first,
                    " has the kind '", definition.kind, "', which does not exist");
  std::shared_ptr<DeviceKernel> kernel;
  try {
    kernel = DefinitionKinds()->Create(definition.kind, definition, operator_of(overload).schema());
  } catch (const c10::Error& error) {
    TORCH_CHECK_VALUE(
        false, location, "field '", definition.last_asked(), "' of the definition of ", first,
        first == overload ? "" : ", for " + overload, ": ", error.what_without_backtrace());
  }
  const Definition::Strings unknown = definition.unknown();
  TORCH_CHECK_VALUE(unknown.empty(), location, "the definition of ", first, " has the field '",
                    unknown[0], "', which definitions of the kind '", definition.kind,
                    "' do not have");
  return kernel;
}

void add_definitions(const std::vector<Definition>& definitions) {
  for (const Definition& definition : definitions) {
    for (const std::string& overload : definition.strings("overloads")) {
      RoutedKernel kernel;
      kernel.device_kernel = make_device_kernel(definition, overload);
      kernel.source = kernel.device_kernel->calls_library() ? Source::kLibrary : Source::kKit;
      kernel.placement = Placement::kDevice;
      add_kernel(overload, std::move(kernel));
    }
  }
}

}  // namespace outboard
