#include "dispatch/router.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <map>

#include "dispatch/call_routed.h"
#include "dispatch/external_kernels.h"
#include "dispatch/fallback_policy.h"
#include "dispatch/placement.h"
#include "dispatch/registration.h"
#include "dispatch/report.h"
#include "dispatch/tensor_arguments.h"
#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/programs/program.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/wait.h"

namespace outboard {

// ---- Entries: which kernels an overload has

std::atomic<int> g_router_watchers{0};

namespace {

using Kernels = std::vector<std::shared_ptr<RoutedKernel>>;

struct Entries : std::map<std::string, std::unique_ptr<Operator>> {};

DeviceKernels best_of(const Kernels& kernels) {
  DeviceKernels best = DeviceKernels::kNone;
  for (const auto& kernel : kernels) {
    if (kernel->source != Source::kKit) return DeviceKernels::kExternal;
    if (kernel->device_kernel != nullptr) best = DeviceKernels::kBuiltIn;
  }
  return best;
}

// Replaces the snapshot. Readers may hold the old one, so it is never freed: some words each, since
// the code of removed kernels is released.
void replace_kernels(Operator& entry, Kernels kernels) {
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) {
    if (a->source != b->source) return static_cast<int>(a->source) > static_cast<int>(b->source);
    return a->follows < b->follows;
  });
  // Stored first: a thread that sees the new kernel also sees that there is one.
  entry.device_kernels.store(best_of(kernels), std::memory_order_release);
  entry.kernels.store(new Kernels(std::move(kernels)), std::memory_order_release);
}

Kernels kernels_of(const Operator& entry) {
  const Kernels* kernels = entry.kernels.load(std::memory_order_acquire);
  return kernels != nullptr ? *kernels : Kernels();
}

// Ends a use of an external kernel; the last one releases its code.
void end_use(RoutedKernel& kernel) noexcept {
  if (kernel.uses->users.fetch_sub(1) != 1) return;
  kernel.kernel = c10::KernelFunction();
  kernel.device_kernel.reset();
}

// Kernels for the other forms, if `kernel` is one of an out= form.
void add_followers(const Operator& entry, const RoutedKernel& kernel) {
  const auto op = c10::Dispatcher::singleton().findSchema(operator_name(entry.name));
  if (!op.has_value()) return;
  for (const c10::OperatorHandle& form : following_forms(*op)) {
    add_kernel(c10::toString(form.operator_name()), following_kernel(kernel));
  }
}

}  // namespace

Operator::Operator(std::string name_) : name(std::move(name_)) {}

Operator& router_entry(const std::string& name) {
  const Locked<Entries> all;
  std::unique_ptr<Operator>& entry = (*all)[name];
  if (entry == nullptr) entry = std::make_unique<Operator>(name);
  return *entry;
}

std::vector<std::string> router_names() {
  const Locked<Entries> all;
  std::vector<std::string> names;
  for (const auto& [name, entry] : *all) names.push_back(name);
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
  const Locked<Entries> lock;
  Kernels kernels = kernels_of(entry);
  kernels.insert(kernels.begin(), shared);
  replace_kernels(entry, std::move(kernels));
  return shared;
}

void remove_kernel(const std::string& name, const std::shared_ptr<RoutedKernel>& kernel) {
  Operator& entry = router_entry(name);
  {
    const Locked<Entries> lock;
    Kernels kernels = kernels_of(entry);
    if (std::erase(kernels, kernel) == 0) return;
    replace_kernels(entry, std::move(kernels));
  }
  if (kernel->uses == nullptr) return;
  // Kernels made from this one are removed at their next calls.
  kernel->uses->token->invalidate();
  // Without the lock: destroying a Python function takes the interpreter lock.
  end_use(*kernel);
}

// ---- Calls: which of them runs

namespace {

// The device and the dtype by which kernels are chosen.
struct Subject {
  c10::DeviceIndex device = -1;
  at::ScalarType dtype = at::ScalarType::Undefined;

  bool see(const at::Tensor& tensor) {
    if (dtype == at::ScalarType::Undefined) dtype = tensor.scalar_type();
    if (!tensor.is_privateuseone()) return false;
    device = tensor.device().index();
    dtype = tensor.scalar_type();
    return true;
  }
};

Subject subject_of(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  Subject subject;
  const auto arguments = torch::jit::last(stack, schema.arguments().size());
  const auto decides = [&subject](const at::Tensor& tensor) { return subject.see(tensor); };
  for (const c10::IValue& argument : arguments) {
    if (any_tensor(argument, decides)) return subject;
  }
  // A factory: device and dtype are arguments.
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isDevice()) {
      const c10::Device device = arguments[i].toDevice();
      if (device.is_privateuseone() && device.has_index()) subject.device = device.index();
    } else if (arguments[i].isInt() && schema.arguments()[i].name() == "dtype") {
      subject.dtype = static_cast<at::ScalarType>(arguments[i].toInt());
    }
  }
  if (subject.device == -1) subject.device = current_device();
  return subject;
}

bool matches(const RoutedKernel& kernel, const Subject& subject) {
  return (kernel.device == -1 || kernel.device == subject.device) &&
         !(kernel.separate_memory_only && shares_host_memory(subject.device)) &&
         (kernel.dtypes == kAllDtypes || (subject.dtype != at::ScalarType::Undefined &&
                                          (kernel.dtypes >> static_cast<int>(subject.dtype)) & 1));
}

// Whether `test` is true for a tensor among the last `arguments` values.
template <class Test>
bool any_argument(const torch::jit::Stack& stack, size_t arguments, const Test& test) {
  return std::ranges::any_of(torch::jit::last(stack, arguments),
                             [&test](const c10::IValue& value) { return any_tensor(value, test); });
}

// Whether an argument is in memory that the device adopted from the host. Its owner may free it at
// any time, also while a stream still uses it.
bool uses_adopted_memory(const torch::jit::Stack& stack, size_t arguments) {
  return any_argument(stack, arguments, [](const at::Tensor& tensor) {
    return tensor.is_privateuseone() && tensor.has_storage() && tensor.storage().nbytes() != 0 &&
           caching_allocator()->device_of_pointer(tensor.storage().data()) < 0;
  });
}

// Runs a kernel that enqueues on the current stream, and waits for the stream where an argument
// uses such memory: also when the kernel raises, since it may have enqueued work before.
template <class Run>
void run_on_stream(const torch::jit::Stack& stack, size_t arguments, c10::DeviceIndex device,
                   const Run& run) {
  if (C10_LIKELY(!adopts_host_memory(device) || !uses_adopted_memory(stack, arguments))) {
    run();
    return;
  }
  try {
    run();
  } catch (...) {
    const StreamState& stream = current_stream_state(device);
    if (!stream.idle() && !stream.capturing.load(std::memory_order_acquire)) {
      defer_status(wait_for_queue_once(driver(), stream.queue), "queue_synchronize");
    }
    throw;
  }
  synchronize_stream(current_stream_state(device));
}

// Holds the code of a kernel for the length of a call.
class KernelUse {
 public:
  explicit KernelUse(RoutedKernel& kernel) noexcept : kernel_(kernel) {
    if (C10_LIKELY(kernel.uses == nullptr)) return;
    int users = kernel.uses->users.load();
    while (users != 0 && !kernel.uses->users.compare_exchange_weak(users, users + 1)) {
    }
    usable_ = users != 0;
  }
  ~KernelUse() {
    if (C10_UNLIKELY(kernel_.uses != nullptr) && usable_) end_use(kernel_);
  }
  C10_DISABLE_COPY_AND_ASSIGN(KernelUse);

  bool usable() const noexcept { return usable_; }

 private:
  RoutedKernel& kernel_;
  bool usable_ = true;
};

// Whether an argument has no memory that a built-in kernel could use.
bool lacks_storage(const torch::jit::Stack& stack, size_t arguments) {
  return any_argument(stack, arguments, [](const at::Tensor& tensor) {
    return !tensor.unsafeGetTensorImpl()->has_storage() || tensor._is_zerotensor();
  });
}

// For external kernels.
void own(BorrowedArguments* borrowed) {
  if (borrowed != nullptr) borrowed->own();
}

// True if the kernel took the call.
bool run_device_kernel(Operator& entry, const RoutedKernel& kernel, const Subject& subject,
                       const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                       torch::jit::Stack* stack, bool borrowed) {
  DeviceKernel& device_kernel = *kernel.device_kernel;
  if (device_kernel.calls_library()) {
    if (PlacementScope::current() == PlacementSetting::kHost) return false;
  } else if (!runs_code(subject.device)) {
    return false;
  }
  if (kernel.source == Source::kKit) {
    if (!runs_on_device(subject.device)) return false;
    if (lacks_storage(*stack, op.schema().arguments().size())) return false;
  }
  ReportedCall reported(entry, subject.dtype, Placement::kDevice);
  bool took = false;
  run_on_stream(*stack, op.schema().arguments().size(), subject.device,
                [&] { took = device_kernel.run(op, keys, stack, subject.device, borrowed); });
  if (!took) reported.cancel();
  return took;
}

// True if an external kernel took the call. A kernel declines by throwing; the arguments, which
// PyTorch's wrappers have taken off the stack, are restored.
bool run_external_kernel(Operator& entry, const RoutedKernel& kernel, const Subject& subject,
                         const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                         torch::jit::Stack* stack) {
  const size_t arguments = op.schema().arguments().size();
  const size_t base = stack->size() - arguments;
  const auto first = stack->begin() + static_cast<ptrdiff_t>(base);
  const c10::SmallVector<c10::IValue, 8> given(first, stack->end());
  try {
    ReportedCall reported(entry, subject.dtype, Placement::kDevice);
    // The report counts the out= form.
    if (kernel.follows) reported.cancel();
    run_on_stream(*stack, arguments, subject.device,
                  [&] { kernel.kernel.callBoxed(op, keys, stack); });
    return true;
  } catch (...) {
    if (!declined()) throw;
  }
  stack->resize(base);
  stack->insert(stack->end(), given.begin(), given.end());
  return false;
}

Placement host_placement(const Subject& subject) {
  return shares_host_memory(subject.device) ? Placement::kHost : Placement::kCopied;
}

// True if the kernel took the call.
bool run_kernel(Operator& entry, const RoutedKernel& kernel, const Subject& subject,
                const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
                BorrowedArguments* borrowed) {
  if (kernel.device_kernel != nullptr) {
    const bool keep = borrowed != nullptr && borrowed->any();
    return run_device_kernel(entry, kernel, subject, op, keys, stack, keep);
  }
  own(borrowed);
  if (kernel.placement != Placement::kDevice) {
    const Placement placement = host_placement(subject);
    check_fallback(entry, placement, subject.dtype, subject.device);
    const ReportedCall reported(entry, subject.dtype, placement);
    kernel.kernel.callBoxed(op, keys, stack);
    return true;
  }
  if (kernel.uses != nullptr) return run_external_kernel(entry, kernel, subject, op, keys, stack);
  const ReportedCall reported(entry, subject.dtype, Placement::kDevice);
  run_on_stream(*stack, op.schema().arguments().size(), subject.device,
                [&] { kernel.kernel.callBoxed(op, keys, stack); });
  return true;
}

}  // namespace

void call_routed_boxed(Operator& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                       torch::jit::Stack* stack, BorrowedArguments* borrowed) {
  check_fork();
  ensure_device_kernels();
  const Subject subject = subject_of(op.schema(), *stack);
  const bool dense = !keys.has_any(kOtherLayoutKeys);
  if (const Kernels* kernels = entry.kernels.load(std::memory_order_acquire)) {
    for (const auto& kernel : *kernels) {
      if (C10_UNLIKELY(!kernel->is_registered())) {
        remove_kernel(entry.name, kernel);
        continue;
      }
      // Built-in kernels and device kernels support dense tensors only.
      if (!dense && (kernel->source == Source::kKit || kernel->device_kernel != nullptr)) continue;
      if (!matches(*kernel, subject)) continue;
      const KernelUse use(*kernel);
      if (use.usable() && run_kernel(entry, *kernel, subject, op, keys, stack, borrowed)) return;
    }
  }
  own(borrowed);
  const Placement placement = host_placement(subject);
  check_fallback(entry, placement, subject.dtype, subject.device);
  ReportedCall reported(entry, subject.dtype, placement);
  run_on_host(entry, op, keys, stack, subject.device, reported);
}

}  // namespace outboard
