#include "dispatch/external_kernels.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <outboard/kernel.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>

namespace outboard {
namespace {

constexpr c10::DispatchKey kDeviceKey = c10::DispatchKey::PrivateUse1;
constexpr std::string_view kRegisteredAt = "registered at ";

// Access to SafeKernelFunction::token_, which tells whether the dispatcher still has the kernel;
// the class only raises. Explicit instantiations may name private members.
std::shared_ptr<c10::KernelToken> token_of(const c10::SafeKernelFunction& kernel);
template <auto member>
struct TokenAccess {
  friend std::shared_ptr<c10::KernelToken> token_of(const c10::SafeKernelFunction& kernel) {
    return kernel.*member;
  }
};
template struct TokenAccess<&c10::SafeKernelFunction::token_>;

class RawKernel final : public c10::OperatorKernel {
 public:
  explicit RawKernel(c10::SafeKernelFunction kernel) : kernel_(std::move(kernel)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    kernel_.callBoxed(op, keys, stack);
  }

 private:
  const c10::SafeKernelFunction kernel_;
};

bool has_composite(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

// "file:line" from the dispatcher's description, if it has one.
std::string location_in(const std::string& debug) {
  return debug.starts_with(kRegisteredAt) ? debug.substr(kRegisteredAt.size()) : debug;
}

bool is_python(const std::string& location) {
  const std::string file = location.substr(0, location.rfind(':'));
  return file.ends_with(".py") || file.starts_with("<");
}

}  // namespace

std::optional<RoutedKernel> raw_kernel(const c10::OperatorHandle& op) {
  const bool own = op.hasKernelForDispatchKey(kDeviceKey);
  if (own && op.isKernelFallthroughKernel(kDeviceKey)) return std::nullopt;
  // Without a kernel of its own, an operator may reach a fallback for all operators.
  if (!own && (has_composite(op) || !op.hasComputedKernelForDispatchKey(kDeviceKey)))
    return std::nullopt;
  c10::SafeKernelFunction kernel = op.getComputedKernelForDispatchKey(kDeviceKey);
  if (kernel.debug().find(kKitSignature) != std::string::npos) return std::nullopt;
  RoutedKernel row;
  row.uses = std::make_shared<KernelUses>(token_of(kernel));
  row.origin = location_in(kernel.debug());
  row.raw = true;
  row.source = is_python(row.origin) ? Source::kUser : Source::kVendor;
  row.placement = own ? Placement::kDevice : Placement::kCopied;
  row.kernel =
      c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<RawKernel>(std::move(kernel)));
  return row;
}

namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool same_inputs(const std::vector<c10::Argument>& a, const std::vector<c10::Argument>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.name() == y.name() && *x.type() == *y.type();
  });
}

// The key of the implementation that allocates and calls the out= form; Undefined if none.
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
  // The out= form has no derivative, and autograd already ran.
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

namespace {

std::atomic<RecognizeDecline> g_recognize{nullptr};

}  // namespace

const char* Declined::what() const noexcept {
  return "a kernel declined a call that reached it without torch_outboard, so there is no next "
         "kernel; bring it with OUTBOARD_KERNEL, or load its library before the device is first "
         "used or in a `with torch_outboard.registering():`";
}

void set_recognize_decline(RecognizeDecline function) noexcept { g_recognize.store(function); }

bool declined() noexcept {
  try {
    throw;
  } catch (const Declined&) {
    return true;
  } catch (...) {
    const RecognizeDecline recognize = g_recognize.load();
    return recognize != nullptr && recognize();
  }
}

void decline() { throw Declined(); }

}  // namespace outboard
