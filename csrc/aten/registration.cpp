// What PyTorch's dispatcher is told, once, when the library is loaded.
#include <torch/library.h>

#include <array>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>

#include "aten/registration.h"
#include "aten/router.h"
#include "aten/sparse.h"

namespace outboard {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::PrivateUse1;

std::string full_name(const c10::OperatorName& name) { return c10::toString(name); }

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

// Operators without a registration of their own: those of other libraries.
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  static auto* mutex = new std::shared_mutex;
  static auto* known = new std::unordered_map<c10::OperatorName, Operator*>;
  Operator* entry = nullptr;
  {
    std::shared_lock<std::shared_mutex> lock(*mutex);
    const auto found = known->find(op.operator_name());
    if (found != known->end()) entry = found->second;
  }
  if (entry == nullptr) {
    entry = &router_entry(full_name(op.operator_name()));
    std::unique_lock<std::shared_mutex> lock(*mutex);
    known->emplace(op.operator_name(), entry);
  }
  call_routed_boxed(*entry, op, keys, stack);
}

struct Registrations {
  std::mutex mutex;
  std::set<std::string> names;
  // Registrations live as long as the process: a destructor would take operators away while
  // tensors still exist.
  std::vector<torch::Library*> libraries;
};

Registrations& registrations() {
  static Registrations* instance = new Registrations;
  return *instance;
}

torch::Library& library(const std::string& name_space) {
  auto* made = new torch::Library(torch::Library::IMPL, name_space, kKey, __FILE__, __LINE__);
  registrations().libraries.push_back(made);
  return *made;
}

torch::CppFunction router_kernel(const std::string& name) {
  return torch::CppFunction::makeFromBoxedFunctor(
      std::make_unique<RouterKernel>(router_entry(name)));
}

KernelRow* g_rows = nullptr;

// Composites that list the device types they accept: as host kernels they see the CPU.
constexpr std::array<const char*, 1> kCompositesOnHost = {"mode.values"};

}  // namespace

void add_row(KernelRow* row) noexcept {
  row->next = g_rows;
  g_rows = row;
}

void ensure_registered(const std::string& name) {
  Registrations& all = registrations();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (!all.names.insert(name).second) return;
  const size_t separator = name.find("::");
  TORCH_CHECK_VALUE(separator != std::string::npos, "'", name,
                    "' is no operator name; write it as 'aten::add.Tensor'");
  library(name.substr(0, separator)).impl(name.substr(separator + 2).c_str(), router_kernel(name));
}

void route_operators_like(c10::DispatchKey model, c10::DispatchKey key, torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.compare(0, 6, "aten::") != 0) continue;
    const auto handle = dispatcher.findSchema(name);
    if (!handle.has_value() || !handle->hasKernelForDispatchKey(model) ||
        handle->hasKernelForDispatchKey(key)) {
      continue;
    }
    const std::string full = full_name(name);
    if (key == kKey && !registrations().names.insert(full).second) continue;
    library.impl(full.substr(6).c_str(), router_kernel(full));
  }
}

void register_operators() {
  Registrations& all = registrations();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (!all.libraries.empty()) return;
  torch::Library& aten = library("aten");
  register_required_operators(aten);
  // Typed kernels first: an overload may have one for the short way and a routed one for the rest.
  for (const KernelRow* row = g_rows; row != nullptr; row = row->next) {
    if (row->make_direct == nullptr) continue;
    const std::string name = std::string("aten::") + row->name;
    TORCH_INTERNAL_ASSERT(all.names.insert(name).second, name, " has two kernels");
    aten.impl(row->name, row->make_direct());
  }
  for (const KernelRow* row = g_rows; row != nullptr; row = row->next) {
    if (row->make_direct != nullptr) continue;
    const std::string name = std::string("aten::") + row->name;
    if (all.names.insert(name).second) aten.impl(row->name, router_kernel(name));
    if (row->make_routed == nullptr) continue;
    RoutedKernel kernel;
    kernel.kernel = row->make_routed();
    kernel.way = Way::kShared;
    add_kernel_to_entry(router_entry(name), std::move(kernel));
  }
  for (const char* name : kCompositesOnHost) {
    const std::string full = std::string("aten::") + name;
    if (all.names.insert(full).second) aten.impl(name, router_kernel(full));
  }
  route_operators_like(c10::DispatchKey::CPU, kKey, aten);
  register_sparse_operators();
  auto* every = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  all.libraries.push_back(every);
  every->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace outboard
