// The router: one entry per operator overload, with its kernels, chosen by device and dtype.
//
// Every dense overload is registered with PyTorch's dispatcher once: as a boxed functor that calls
// the router, or as a typed kernel that asks `runs_plainly` first. Built-in kernels and those of
// hardware vendors and users are in an entry and unknown to the dispatcher. Kernels that others
// registered with the dispatcher are added to the entry (external_kernels.h).
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/placement.h"
#include "runtime/driver/device.h"
#include "runtime/export.h"

namespace outboard {

// Origin of a kernel; a larger one wins, and among equals the later kernel. A call of the driver's
// library has a lower rank than a kernel that its vendor wrote for the operator.
enum class Source : uint8_t { kKit = 0, kLibrary = 1, kVendor = 2, kUser = 3 };

constexpr uint64_t kAllDtypes = ~uint64_t{0};  // bit i: ScalarType(i)

// Keys of tensors that built-in kernels for dense tensors must not see.
inline constexpr c10::DispatchKeySet kOtherLayoutKeys({c10::DispatchKey::Sparse,
                                                       c10::DispatchKey::SparseCsr,
                                                       c10::DispatchKey::NestedTensor,
                                                       c10::DispatchKey::Quantized});

// Kernel that runs one overload on a device by compiled code or by the driver's library.
class OUTBOARD_API DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;

  // Runs the operator on `device`, from any number of threads at once. Without `keeps_arguments` it
  // takes the arguments off the stack and leaves the results. With it, arguments stay, and behind
  // them come the results of a functional form; those of other forms are arguments. Returns false
  // to decline the call (an unsupported dtype, shape or layout, or an argument for which the CPU's
  // kernel raises the error): stack and tensors are unchanged, and the next kernel of the overload
  // or the host takes the call.
  virtual bool run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack, c10::DeviceIndex device, bool keeps_arguments) = 0;

  // Kind of work, for listings: "pointwise", "reduction" ...
  virtual const char* family() const noexcept = 0;

  // True if it needs a function of the driver's library instead of compiled code. It then runs
  // wherever the driver has the function, as vendors' kernels do, regardless of the placement of
  // the device.
  virtual bool calls_library() const noexcept { return false; }
};

// The registration of an external kernel. Readers of an entry take no lock, so the last user
// releases the kernel's code.
struct KernelUses {
  KernelUses() : token(std::make_shared<c10::KernelToken>()) {}
  explicit KernelUses(std::shared_ptr<c10::KernelToken> token_) : token(std::move(token_)) {}

  // Invalid once the kernel was removed. PyTorch's token for a kernel of its dispatcher; shared
  // with the kernels made from this one.
  const std::shared_ptr<c10::KernelToken> token;
  std::atomic<int> users{1};  // the entry, and calls under way
};

// A kernel over device tensors.
struct RoutedKernel {
  c10::KernelFunction kernel;
  // Instead of `kernel`: may decline a call. A built-in one runs only where the placement of the
  // device (placement.h) is the device.
  std::shared_ptr<DeviceKernel> device_kernel;
  Source source = Source::kKit;
  Placement placement = Placement::kDevice;  // as reported
  c10::DeviceIndex device = -1;              // -1: every device
  uint64_t dtypes = kAllDtypes;       // of the first tensor argument, else the dtype argument
  bool separate_memory_only = false;  // not on devices that share memory with the host
  // Of external kernels, which may decline a call by throwing Declined (external_kernels.h).
  std::shared_ptr<KernelUses> uses;
  std::string origin;    // of external kernels: where they were registered, "file:line"
  bool raw = false;      // registered with PyTorch's dispatcher
  bool follows = false;  // made from the kernel of the out= form (following_kernel)

  bool is_registered() const noexcept { return uses == nullptr || uses->token->isValid(); }
};

struct CpuPlan;

// The best kernels of an operator beside the CPU's.
enum class DeviceKernels : uint8_t {
  kNone = 0,
  kBuiltIn = 1,   // run where the placement of the device is the device
  kExternal = 2,  // of hardware vendors and users: run wherever they match
};

struct Operator {
  explicit Operator(std::string name_);

  const std::string name;  // "aten::add.Tensor"
  std::atomic<DeviceKernels> device_kernels{DeviceKernels::kNone};
  // Snapshot of the kernels, best first; replaced as a whole. Old snapshots are never freed, but
  // the code of removed kernels is.
  std::atomic<const std::vector<std::shared_ptr<RoutedKernel>>*> kernels{nullptr};
  // Which arguments of `run_on_host` to map, made at the first use.
  std::atomic<const CpuPlan*> cpu_plan{nullptr};
};

// The entry of an overload ("aten::add.Tensor"), made at the first use. Its address never changes.
OUTBOARD_API Operator& router_entry(const std::string& name);

// Adds a kernel to an entry; takes effect for the next call. Returns a token for remove_kernel.
OUTBOARD_API std::shared_ptr<RoutedKernel> add_kernel(const std::string& name, RoutedKernel kernel);
// The same for an overload that is registered already.
std::shared_ptr<RoutedKernel> add_kernel_to_entry(Operator& entry, RoutedKernel kernel);
// Releases the kernel's code, such as a Python function, after the last running call. A second call
// does nothing.
OUTBOARD_API void remove_kernel(const std::string& name,
                                const std::shared_ptr<RoutedKernel>& kernel);
// Reasons for typed kernels to call the router: a report is on, a policy other than the default is
// set for `kHost`, an operator is denied, or device kernels may exist and are not loaded yet.
extern OUTBOARD_API std::atomic<int> g_router_watchers;

// Whether a typed kernel may run `op` at once as a host kernel on the memory of `device`: it shares
// memory with the host, no other kernel takes such a call, and nothing watches the router. The
// caller synchronizes the current stream.
inline bool runs_plainly(const Operator& op, c10::DeviceIndex device) {
  if (g_router_watchers.load(std::memory_order_relaxed) != 0) return false;
  const DeviceKernels known = op.device_kernels.load(std::memory_order_acquire);
  if (known == DeviceKernels::kExternal) return false;
  if (known == DeviceKernels::kBuiltIn && runs_on_device(device)) return false;
  return shares_host_memory(device);
}

// The kernels of an overload, best first.
OUTBOARD_API std::vector<std::shared_ptr<RoutedKernel>> kernels_of(const std::string& name);

// Names of all entries, sorted.
OUTBOARD_API std::vector<std::string> router_names();

// Registers a boxed functor with the dispatcher for every overload with a CPU kernel, and the
// built-in kernels, where no other library was first. Once, at load.
OUTBOARD_API void register_operators();
// Registers what others may register between load and the first use of the device, and looks for
// their kernels. A second call does nothing.
OUTBOARD_API void finish_registrations();
// Around registrations of others after the first use. In between, the slot for a fallback of all
// operators is free, and PyTorch refuses operators of other libraries that have no kernel for the
// device. At the end the kit takes the slot if it is still free, and looks for kernels. Pairs nest.
OUTBOARD_API void begin_registering();
OUTBOARD_API void end_registering();
// Makes calls of this overload reach the router. A kernel of another library that they reach now is
// added to the entry.
void ensure_registered(const std::string& name);
// Whether calls reach the router: those of built-in memory, views and copies do not.
OUTBOARD_API bool reaches_router(const std::string& name);
// ensure_registered for the overloads of aten among `names` for which others registered kernels of
// the device. Unknown names are skipped.
OUTBOARD_API void find_raw_kernels(const std::vector<c10::OperatorName>& names);

// Runs an operator with its arguments on a stack, by a kernel of its entry or on the host. While
// arguments are borrowed, which they may be before and after, they stay below the results.
class BorrowedArguments;
OUTBOARD_API void call_routed_boxed(Operator& entry, const c10::OperatorHandle& op,
                                    c10::DispatchKeySet keys, torch::jit::Stack* stack,
                                    BorrowedArguments* borrowed = nullptr);

// The CPU fallback, defined in a layer above (cpu_kernels): replaces the arguments on `stack` by
// host tensors, calls the CPU kernel of `op`, and leaves device results. Raises NotImplementedError
// where there is no CPU kernel, RuntimeError where tensors of several devices are mixed.
class ReportedCall;
void run_on_host(Operator& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack, c10::DeviceIndex device, ReportedCall& reported);

// ---- Registration of built-in kernels

// A static object per overload, read once at load.
struct KernelRow {
  // One of the functions is null: the kernel is called by the dispatcher, or is behind the boxed
  // router. `name` is without namespace: "add.Tensor".
  OUTBOARD_API KernelRow(const char* name, torch::CppFunction (*make_direct)(),
                         c10::KernelFunction (*make_routed)()) noexcept;

  const char* const name;
  torch::CppFunction (*const make_direct)();
  c10::KernelFunction (*const make_routed)();
  const KernelRow* const next;
};

}  // namespace outboard

#define OUTBOARD_ROW(...) \
  static const ::outboard::KernelRow C10_ANONYMOUS_VARIABLE(outboard_row)(__VA_ARGS__);

// A typed kernel over device tensors that the dispatcher calls directly, on every device and dtype;
// it passes arguments that it does not take to the router (call_routed.h). It is a run-time
// pointer, so the dispatcher's wrappers are compiled once per signature instead of once per
// operator, and comes last because template arguments hold commas.
#define OUTBOARD_DIRECT(op_name, ...) \
  OUTBOARD_ROW(                       \
      op_name, []() -> torch::CppFunction { return torch::CppFunction(&__VA_ARGS__); }, nullptr)

// A kernel over device tensors in place of the CPU fallback of one operator whose CPU kernel is not
// usable (random numbers, fused cells). It is behind the router, so policies, reports and vendors'
// kernels apply.
#define OUTBOARD_ROUTED(op_name, function)                                   \
  OUTBOARD_ROW(op_name, nullptr, []() -> c10::KernelFunction {               \
    return c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(function)); \
  })
