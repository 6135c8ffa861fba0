// The entries of the router: which kernels an overload has.
#include <algorithm>
#include <map>
#include <mutex>

#include "dispatch/external/following_forms.h"
#include "dispatch/router.h"

namespace outboard {

std::atomic<int> g_router_watchers{0};

namespace {

using Kernels = std::vector<std::shared_ptr<RoutedKernel>>;

// Entries are leaked: kernels may run while the process exits.
struct Entries {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Operator>> by_name;
};

Entries& entries() {
  static Entries* instance = new Entries;
  return *instance;
}

DeviceKernels best_of(const Kernels& kernels) {
  DeviceKernels best = DeviceKernels::kNone;
  for (const auto& kernel : kernels) {
    if (kernel->source != Source::kKit) return DeviceKernels::kExternal;
    if (kernel->device_kernel != nullptr) best = DeviceKernels::kBuiltIn;
  }
  return best;
}

// Replaces the snapshot; readers may still hold the old one, so it is never freed (some words each,
// since the code of removed kernels goes).
void replace_kernels(Operator& entry, Kernels kernels) {
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) {
    if (a->source != b->source) return static_cast<int>(a->source) > static_cast<int>(b->source);
    return a->follows < b->follows;
  });
  // First, so that a thread that sees a new kernel sees that there is one.
  entry.device_kernels.store(best_of(kernels), std::memory_order_release);
  entry.kernels.store(new Kernels(std::move(kernels)), std::memory_order_release);
}

Kernels kernels_of(const Operator& entry) {
  const Kernels* kernels = entry.kernels.load(std::memory_order_acquire);
  return kernels != nullptr ? *kernels : Kernels();
}

// Rows for the other forms, if `kernel` is one of an out= form.
void add_followers(const Operator& entry, const RoutedKernel& kernel) {
  const size_t dot = entry.name.find('.');
  if (dot == std::string::npos) return;
  const auto op = c10::Dispatcher::singleton().findSchema(
      {entry.name.substr(0, dot), entry.name.substr(dot + 1)});
  if (!op.has_value()) return;
  for (const c10::OperatorHandle& form : following_forms(*op)) {
    add_kernel(c10::toString(form.operator_name()), following_kernel(kernel));
  }
}

}  // namespace

Operator::Operator(std::string name_) : name(std::move(name_)) {}

Operator& router_entry(const std::string& name) {
  Entries& all = entries();
  std::lock_guard<std::mutex> lock(all.mutex);
  std::unique_ptr<Operator>& entry = all.by_name[name];
  if (entry == nullptr) entry = std::make_unique<Operator>(name);
  return *entry;
}

std::vector<std::string> router_names() {
  Entries& all = entries();
  std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<std::string> names;
  names.reserve(all.by_name.size());
  for (const auto& [name, entry] : all.by_name) names.push_back(name);
  return names;
}

std::vector<std::shared_ptr<RoutedKernel>> kernels_of(const std::string& name) {
  Kernels kernels = kernels_of(router_entry(name));
  std::erase_if(kernels, [](const auto& kernel) { return !kernel->is_registered(); });
  return kernels;
}

std::shared_ptr<RoutedKernel> add_kernel(const std::string& name, RoutedKernel kernel) {
  ensure_registered(name);
  return add_kernel_to_entry(router_entry(name), std::move(kernel));
}

std::shared_ptr<RoutedKernel> add_kernel_to_entry(Operator& entry, RoutedKernel kernel) {
  auto shared = std::make_shared<RoutedKernel>(std::move(kernel));
  if (shared->source >= Source::kVendor) {
    if (shared->uses == nullptr) shared->uses = std::make_shared<KernelUses>();
    if (!shared->follows) add_followers(entry, *shared);
  }
  std::lock_guard<std::mutex> lock(entries().mutex);
  Kernels kernels = kernels_of(entry);
  kernels.insert(kernels.begin(), shared);
  replace_kernels(entry, std::move(kernels));
  return shared;
}

void remove_kernel(const std::string& name, const std::shared_ptr<RoutedKernel>& kernel) {
  Operator& entry = router_entry(name);
  {
    std::lock_guard<std::mutex> lock(entries().mutex);
    Kernels kernels = kernels_of(entry);
    if (std::erase(kernels, kernel) == 0) return;
    replace_kernels(entry, std::move(kernels));
  }
  if (kernel->uses == nullptr) return;
  // The kernels that were made of this one go at their next calls.
  kernel->uses->token->invalidate();
  // Outside of the lock: the end of a Python function takes the interpreter's.
  end_use(*kernel);
}

void end_use(RoutedKernel& kernel) noexcept {
  if (kernel.uses->users.fetch_sub(1) != 1) return;
  kernel.kernel = c10::KernelFunction();
  kernel.device_kernel.reset();
}

}  // namespace outboard
