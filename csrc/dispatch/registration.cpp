// Registrations with PyTorch's dispatcher, once, at load.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "dispatch/external_kernels.h"
#include "dispatch/registration.h"
#include "dispatch/router.h"
#include "dispatch/tensor_arguments.h"
#include "runtime/driver/driver_table.h"
#include "runtime/global.h"

namespace outboard {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::PrivateUse1;

class RouterKernel final : public c10::OperatorKernel {
 public:
  explicit RouterKernel(Operator& entry) : entry_(entry) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    call_routed_boxed(entry_, op, keys, stack);
  }

 private:
  Operator& entry_;
};

// Entries of operators without a registration: those of other libraries.
struct FallbackEntries : std::unordered_map<c10::OperatorName, Operator*> {};

Operator& fallback_entry(const c10::OperatorName& name) {
  const Locked<FallbackEntries> entries;
  Operator*& entry = (*entries)[name];
  if (entry == nullptr) entry = &router_entry(c10::toString(name));
  return *entry;
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  check_fork();
  call_routed_boxed(fallback_entry(op.operator_name()), op, keys, stack);
}

struct Registrations {
  std::set<std::string> names;
  std::set<std::string> required;            // without an entry: each has one implementation
  std::unique_ptr<torch::Library> fallback;  // removed while a vendor may register its own
  std::vector<c10::DispatchKey> layout_fallbacks;
  int registering = 0;  // begin_registering without its end
  bool started = false;
  bool finished = false;
};

// Recursive: adding a kernel may register the forms that follow it.
using LockedRegistrations = Locked<Registrations, std::recursive_mutex>;

std::unique_ptr<torch::Library> make_library(const std::string& name_space, c10::DispatchKey key) {
  static const std::string* signature = new std::string(std::string(kKitSignature) + ", " __FILE__);
  return std::make_unique<torch::Library>(torch::Library::IMPL, name_space, key, signature->c_str(),
                                          __LINE__);
}

// Never destroyed, since tensors may outlive static objects.
torch::Library& library(const std::string& name_space, c10::DispatchKey key = kKey) {
  return *make_library(name_space, key).release();
}

// PyTorch warns once per process that a kernel replaces another. This is intended here: a vendor's
// kernel replaces a built-in one, and the router's functor replaces the vendor's.
class NoWarnings final : c10::WarningHandler {
 public:
  NoWarnings() : guard_(this) {}
  void process(const c10::Warning&) override {}

 private:
  c10::WarningUtils::WarningHandlerGuard guard_;
};

torch::CppFunction router_kernel(const std::string& name) {
  return torch::CppFunction::makeFromBoxedFunctor(
      std::make_unique<RouterKernel>(router_entry(name)));
}

// Makes PyTorch give that warning now, unseen.
void spend_override_warning() {
  const NoWarnings no_warnings;
  torch::Library first(torch::Library::IMPL, "aten", kKey, kKitSignature, __LINE__);
  torch::Library second(torch::Library::IMPL, "aten", kKey, kKitSignature, __LINE__);
  for (torch::Library* each : {&first, &second}) each->impl("abs", router_kernel("aten::abs"));
}

c10::OperatorName parse_name(const std::string& name) {
  const size_t separator = name.find("::");
  TORCH_CHECK_VALUE(separator != std::string::npos && separator != 0 && separator + 2 < name.size(),
                    "'", name, "' is not an operator name; write it as 'aten::add.Tensor'");
  return operator_name(name);
}

// Whether autograd only knows the decomposition of this operator.
bool is_decomposed_for_autograd(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::Autograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::AutogradPrivateUse1);
}

bool requires_grad(const c10::IValue& value) {
  return any_tensor(value, [](const at::Tensor& tensor) { return tensor.requires_grad(); });
}

// A kernel for a composite operator hides its decomposition, and with it the derivative. Calls that
// need a derivative run the decomposition.
void composite_autograd(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                        torch::jit::Stack* stack) {
  if (at::GradMode::is_enabled() &&
      std::ranges::any_of(torch::jit::last(*stack, op.schema().arguments().size()),
                          &requires_grad)) {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
    return;
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
}

const KernelRow* g_rows = nullptr;

// Composites that list device types, choose a backend by device, or call a stub: they run as a
// whole on the host, where they get CPU tensors.
constexpr const char* kCompositesOnHost[] = {"mode.values",
                                             "conj_physical_",
                                             "addr_",
                                             "kaiser_window",
                                             "kaiser_window.periodic",
                                             "kaiser_window.beta",
                                             "convolution_backward",
                                             "ldexp.Tensor",
                                             "ldexp_",
                                             "ldexp.out"};

// PyTorch has one slot per device for a fallback of all operators, and aborts if a second library
// registers one. So the kit registers last.
void register_fallback() {
  const LockedRegistrations all;
  constexpr const char* kTaken =
      "by torch_outboard, which took the free place when the device was first used (load a library "
      "with a fallback of its own before that, or in a `with torch_outboard.registering():`)";
  if (all->fallback != nullptr || all->registering != 0 ||
      c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kKey)) {
    return;
  }
  all->fallback = make_library("_", kKey);
  all->fallback->fallback(
      torch::CppFunction::makeFromBoxedFunction<&fallback>().debug(std::string(kTaken)));
}

}  // namespace

KernelRow::KernelRow(const char* name_, torch::CppFunction (*make_direct_)(),
                     c10::KernelFunction (*make_routed_)()) noexcept
    : name(name_),
      make_direct(make_direct_),
      make_routed(make_routed_),
      next(std::exchange(g_rows, this)) {}

void ensure_registered(const std::string& name) {
  const c10::OperatorName parsed = parse_name(name);
  const LockedRegistrations all;
  TORCH_CHECK_VALUE(all->required.count(name) == 0, "operator '", name,
                    "' cannot be replaced: its kernel for this device is registered with "
                    "PyTorch's dispatcher itself, as memory, views and copies are");
  const auto handle = c10::Dispatcher::singleton().findSchema(parsed);
  const std::string name_space(*parsed.getNamespace());
  // Other libraries may define their operators later.
  TORCH_CHECK_VALUE(handle.has_value() || name_space != "aten", "operator '", name,
                    "' does not exist; write it as 'aten::add.Tensor'");
  std::optional<RoutedKernel> raw;
  if (handle.has_value()) raw = raw_kernel(*handle);
  if (!raw.has_value() && all->names.count(name) != 0) return;
  const bool composite =
      handle.has_value() && !raw.has_value() && is_decomposed_for_autograd(*handle);
  if (raw.has_value()) add_kernel_to_entry(router_entry(name), std::move(*raw));
  const std::string local = name.substr(name_space.size() + 2);
  const NoWarnings no_warnings;
  library(name_space).impl(local.c_str(), router_kernel(name));
  if (composite) {
    library(name_space, c10::DispatchKey::AutogradPrivateUse1)
        .impl(local.c_str(), torch::CppFunction::makeFromBoxedFunction<&composite_autograd>());
  }
  all->names.insert(name);
}

bool reaches_router(const std::string& name) {
  const LockedRegistrations all;
  return all->names.count(name) != 0;
}

void find_raw_kernels(const std::vector<c10::OperatorName>& names) {
  const LockedRegistrations all;
  for (const c10::OperatorName& name : names) {
    if (!name.name.starts_with("aten::")) continue;
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    const std::string full = c10::toString(name);
    if (handle.has_value() && handle->hasKernelForDispatchKey(kKey) &&
        all->required.count(full) == 0 && raw_kernel(*handle).has_value()) {
      ensure_registered(full);
    }
  }
}

void route_operators_like(c10::DispatchKey model, c10::DispatchKey key, torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getRegistrationsForDispatchKey(model)) {
    if (!name.name.starts_with("aten::")) continue;
    const auto handle = dispatcher.findSchema(name);
    if (!handle.has_value() || handle->hasKernelForDispatchKey(key)) continue;
    const std::string full = c10::toString(name);
    if (key == kKey && !LockedRegistrations()->names.insert(full).second) continue;
    library.impl(full.substr(6).c_str(), router_kernel(full));
  }
}

void register_layout_fallback(c10::DispatchKey key) {
  LockedRegistrations()->layout_fallbacks.push_back(key);
}

void begin_registering() {
  const LockedRegistrations all;
  ++all->registering;
  all->fallback.reset();
}

void end_registering() {
  const LockedRegistrations all;
  if (--all->registering != 0 || !all->finished) return;
  register_fallback();
  find_raw_kernels(c10::Dispatcher::singleton().getRegistrationsForDispatchKey(kKey));
}

void finish_registrations() {
  const LockedRegistrations all;
  if (std::exchange(all->finished, true)) return;
  register_fallback();
  for (const c10::DispatchKey key : all->layout_fallbacks) {
    library("_", key).fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
  find_raw_kernels(c10::Dispatcher::singleton().getRegistrationsForDispatchKey(kKey));
}

void register_operators() {
  const LockedRegistrations all;
  if (std::exchange(all->started, true)) return;
  torch::Library& aten = library("aten");
  YieldingLibrary kernels(aten, kKey);
  register_required_operators(kernels);
  register_copies(kernels);
  register_fills();
  all->required.insert(kernels.names().begin(), kernels.names().end());
  std::set<std::string> direct;
  // Typed kernels first: an overload may have a typed kernel for some arguments and a routed one
  // for the others.
  for (const KernelRow* row = g_rows; row != nullptr; row = row->next) {
    if (row->make_direct == nullptr) continue;
    const std::string name = std::string("aten::") + row->name;
    TORCH_INTERNAL_ASSERT(direct.insert(name).second, name, " has two kernels");
    // A vendor's library that was loaded before may have registered the router for it.
    if (all->names.insert(name).second) kernels.impl(row->name, row->make_direct());
  }
  for (const KernelRow* row = g_rows; row != nullptr; row = row->next) {
    if (row->make_direct != nullptr) continue;
    const std::string name = std::string("aten::") + row->name;
    if (all->names.insert(name).second) kernels.impl(row->name, router_kernel(name));
    RoutedKernel kernel;
    kernel.kernel = row->make_routed();
    kernel.placement = Placement::kHost;
    add_kernel_to_entry(router_entry(name), std::move(kernel));
  }
  for (const char* name : kCompositesOnHost) {
    const std::string full = std::string("aten::") + name;
    if (all->names.insert(full).second) kernels.impl(name, router_kernel(full));
  }
  register_nested_operators(aten);
  register_quantized_operators();
  route_operators_like(c10::DispatchKey::CPU, kKey, aten);
  register_sparse_operators();
  register_integer_histograms();
  register_lstm_layers(library("aten", c10::DispatchKey::AutogradPrivateUse1));
  spend_override_warning();
  at_first_use(&finish_registrations);
}

}  // namespace outboard
