#include "dispatch/router.h"

#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "dispatch/borrowed_arguments.h"
#include "dispatch/fallback_policy.h"
#include "dispatch/external/decline.h"
#include "dispatch/external/following_forms.h"
#include "dispatch/external/raw_kernels.h"
#include "dispatch/external/stub_slots.h"
#include "cpu_kernels/call/boxed_cpu_call.h"
#include "dispatch/report.h"
#include "dispatch/placement.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/fork.h"
#include "runtime/driver/driver_table.h"
#include "runtime/programs/program.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/wait.h"
#include "tensors/layouts/layouts.h"

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

// What a call is about: the device and the dtype by which kernels are chosen.
struct Subject {
  c10::DeviceIndex device = -1;
  at::ScalarType dtype = at::ScalarType::Undefined;

  bool see(const at::Tensor& tensor) {
    if (!tensor.defined()) return false;
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
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      if (subject.see(argument.toTensor())) return subject;
    } else if (argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorList()) {
        if (subject.see(tensor)) return subject;
      }
    } else if (argument.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : argument.toOptionalTensorList()) {
        if (tensor.has_value() && subject.see(*tensor)) return subject;
      }
    }
  }
  // A factory: its device and dtype are arguments.
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

// Whether an argument lies in memory that the device adopted from the host: its owner may free it
// at any time, also while a stream still uses it.
bool uses_adopted_memory(const torch::jit::Stack& stack, size_t arguments) {
  const auto adopted = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.is_privateuseone() && tensor.has_storage() &&
           tensor.storage().nbytes() != 0 &&
           caching_allocator()->device_of_pointer(tensor.storage().data()) < 0;
  };
  for (const c10::IValue& value : torch::jit::last(stack, arguments)) {
    if (value.isTensor()) {
      if (adopted(value.toTensor())) return true;
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      for (const c10::IValue& element : value.toListRef()) {
        if (element.isTensor() && adopted(element.toTensor())) return true;
      }
    }
  }
  return false;
}

// Runs a kernel that gives work to the current stream, and waits for that where an argument lies in
// such memory: also when the kernel raises, as it may have given some before.
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

void release_code(RoutedKernel& kernel) noexcept {
  if (kernel.uses->released.exchange(true)) return;
  kernel.kernel = c10::KernelFunction();
  kernel.device_kernel.reset();
}

// Keeps the code of a kernel for the length of a call.
class KernelUse {
 public:
  explicit KernelUse(RoutedKernel& kernel) noexcept : kernel_(kernel) {
    if (C10_LIKELY(kernel.uses == nullptr)) return;
    // Counted first and asked then, so that either we see that it was removed, or whoever removes
    // it sees us.
    kernel.uses->running.fetch_add(1);
    usable_ = !kernel.uses->removed.load();
  }
  ~KernelUse() {
    if (C10_LIKELY(kernel_.uses == nullptr)) return;
    if (kernel_.uses->running.fetch_sub(1) == 1 && kernel_.uses->removed.load()) {
      release_code(kernel_);
    }
  }
  KernelUse(const KernelUse&) = delete;
  KernelUse& operator=(const KernelUse&) = delete;

  bool usable() const noexcept { return usable_; }

 private:
  RoutedKernel& kernel_;
  bool usable_ = true;
};

// Whether an argument has no memory that a kernel of the kit could be given
// (tensors/storage_check.h).
bool lacks_storage(const torch::jit::Stack& stack, size_t arguments) {
  const auto lacks = [](const at::Tensor& tensor) {
    return tensor.defined() && !tensor.unsafeGetTensorImpl()->has_storage();
  };
  for (const c10::IValue& value : torch::jit::last(stack, arguments)) {
    if (value.isTensor()) {
      if (lacks(value.toTensor())) return true;
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      for (const c10::IValue& element : value.toListRef()) {
        if (element.isTensor() && lacks(element.toTensor())) return true;
      }
    }
  }
  return false;
}

// For kernels that are not of the kit.
void own(BorrowedArguments* borrowed) {
  if (borrowed != nullptr) borrowed->own();
}

// Whether the kernel took the call.
bool run_device_kernel(Operator& entry, const RoutedKernel& kernel, const Subject& subject,
                       const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                       torch::jit::Stack* stack, bool borrowed) {
  DeviceKernel& device_kernel = *kernel.device_kernel;
  if (keys.has_any(kOtherLayoutKeys)) return false;
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

// Calls what may leave the call to the next kernel by throwing; then the arguments are on the stack
// as before, although PyTorch's wrappers take them off.
template <class Call>
bool call_unless_declined(torch::jit::Stack* stack, size_t arguments, const Call& call) {
  const size_t base = stack->size() - arguments;
  const auto first = stack->begin() + static_cast<ptrdiff_t>(base);
  const c10::SmallVector<c10::IValue, 8> given(first, stack->end());
  const auto give_back = [&] {
    stack->resize(base);
    stack->insert(stack->end(), given.begin(), given.end());
  };
  try {
    if (call()) return true;
  } catch (...) {
    if (!declined()) throw;
  }
  give_back();
  return false;
}

// Whether a kernel of a vendor or a user took the call.
bool run_brought_kernel(Operator& entry, const std::shared_ptr<RoutedKernel>& kernel,
                        const Subject& subject, const c10::OperatorHandle& op,
                        c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const size_t arguments = op.schema().arguments().size();
  bool withdrawn = false;
  const bool took = call_unless_declined(stack, arguments, [&] {
    try {
      ReportedCall reported(entry, subject.dtype, Placement::kDevice);
      // The out= form counts.
      if (kernel->follows) reported.cancel();
      run_on_stream(*stack, arguments, subject.device,
                    [&] { kernel->kernel.callBoxed(op, keys, stack); });
      return true;
    } catch (const c10::Error& error) {
      if (!is_withdrawn(*kernel, op, error)) throw;
    }
    withdrawn = true;
    remove_kernel(entry.name, kernel);
    return false;
  });
  if (withdrawn && runs_for_following_form(entry)) throw Declined();
  return took;
}

// Whether a stub's kernel that is not the kit's took the call.
bool run_stub_kernel(Operator& entry, const Subject& subject, const c10::OperatorHandle& op,
                     torch::jit::Stack* stack, BorrowedArguments* borrowed) {
  const StubUses* stubs = entry.stubs.load(std::memory_order_acquire);
  if (C10_LIKELY(stubs == nullptr || !brought_by_others(*stubs))) return false;
  own(borrowed);
  const size_t arguments = op.schema().arguments().size();
  return call_unless_declined(stack, arguments, [&] {
    // The out= form counts, and comes by here.
    if (run_composite(op, stack)) return true;
    ReportedCall reported(entry, subject.dtype, Placement::kDevice);
    run_on_stream(*stack, arguments, subject.device, [&] { run_with_stubs(op, stack); });
    return true;
  });
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

// What a kernel of an out= form means for the other forms.
void add_followers(const Operator& entry, RoutedKernel& kernel) {
  const size_t dot = entry.name.find('.');
  if (dot == std::string::npos) return;
  const auto op = c10::Dispatcher::singleton().findSchema(
      {entry.name.substr(0, dot), entry.name.substr(dot + 1)});
  if (!op.has_value()) return;
  for (const c10::OperatorHandle& form : following_forms(*op)) {
    const std::string name = c10::toString(form.operator_name());
    ensure_registered(name);
    Operator& its_entry = router_entry(name);
    kernel.followers.emplace_back(&its_entry,
                                  add_kernel_to_entry(its_entry, following_kernel(entry, kernel)));
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
  return kernels_of(router_entry(name));
}

std::shared_ptr<RoutedKernel> add_kernel(const std::string& name, RoutedKernel kernel) {
  ensure_registered(name);
  return add_kernel_to_entry(router_entry(name), std::move(kernel));
}

std::shared_ptr<RoutedKernel> add_kernel_to_entry(Operator& entry, RoutedKernel kernel) {
  auto shared = std::make_shared<RoutedKernel>(std::move(kernel));
  if (shared->source >= Source::kVendor) {
    shared->uses = std::make_shared<KernelUses>();
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
    kernels.erase(std::remove(kernels.begin(), kernels.end(), kernel), kernels.end());
    replace_kernels(entry, std::move(kernels));
  }
  for (const auto& [form, follower] : kernel->followers) remove_kernel(form->name, follower);
  if (kernel->uses == nullptr) return;
  // Outside of the lock: a Python function's end takes the interpreter's.
  kernel->uses->removed.store(true);
  if (kernel->uses->running.load() == 0) release_code(*kernel);
}

void call_routed_boxed(Operator& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                       torch::jit::Stack* stack, BorrowedArguments* borrowed) {
  check_fork();
  ensure_device_kernels();
  const Subject subject = subject_of(op.schema(), *stack);
  const Placement host_placement =
      shares_host_memory(subject.device) ? Placement::kHost : Placement::kCopied;
  // A stub's kernel has the rank of a vendor's, behind those that were brought for the operator.
  bool stubs_asked = keys.has_any(kOtherLayoutKeys);
  if (const Kernels* kernels = entry.kernels.load(std::memory_order_acquire)) {
    for (const auto& kernel : *kernels) {
      if (!matches(*kernel, subject)) continue;
      // The kit's kernels know dense tensors alone.
      if (kernel->source == Source::kKit && keys.has_any(kOtherLayoutKeys)) continue;
      if (kernel->source < Source::kVendor && !std::exchange(stubs_asked, true) &&
          run_stub_kernel(entry, subject, op, stack, borrowed)) {
        return;
      }
      const KernelUse use(*kernel);
      if (!use.usable()) continue;
      if (kernel->device_kernel != nullptr) {
        const bool keep = borrowed != nullptr && borrowed->any();
        if (run_device_kernel(entry, *kernel, subject, op, keys, stack, keep)) return;
        continue;
      }
      own(borrowed);
      if (kernel->placement == Placement::kDevice && kernel->uses != nullptr) {
        if (run_brought_kernel(entry, kernel, subject, op, keys, stack)) return;
        continue;
      }
      const Placement placement =
          kernel->placement == Placement::kDevice ? Placement::kDevice : host_placement;
      if (placement != Placement::kDevice)
        check_fallback(entry, placement, subject.dtype, subject.device);
      ReportedCall reported(entry, subject.dtype, placement);
      if (placement != Placement::kDevice) {
        kernel->kernel.callBoxed(op, keys, stack);
        return;
      }
      run_on_stream(*stack, op.schema().arguments().size(), subject.device,
                    [&] { kernel->kernel.callBoxed(op, keys, stack); });
      return;
    }
  }
  if (!stubs_asked && run_stub_kernel(entry, subject, op, stack, borrowed)) return;
  own(borrowed);
  check_fallback(entry, host_placement, subject.dtype, subject.device);
  ReportedCall reported(entry, subject.dtype, host_placement);
  run_on_host(entry, op, keys, stack, subject.device, reported);
}

}  // namespace outboard
