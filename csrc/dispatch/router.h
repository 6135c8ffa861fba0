// The router: one entry per operator overload, which decides by device and dtype who computes it.
//
// Every dense overload is registered with PyTorch's dispatcher once, either as a boxed functor that
// asks the router, or as a typed kernel that asks `runs_plainly` first. Kernels of the kit, of
// vendors and of users are rows in an entry; the dispatcher never hears of them. What others
// registered with the dispatcher themselves becomes a row, too (external/raw_kernels.h).
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dispatch/device_kernel.h"
#include "dispatch/placement.h"
#include "runtime/driver/device.h"
#include "runtime/export.h"

namespace outboard {

// Who brought a kernel; a larger one wins, and among equals the later one. A call of the driver's
// library stands below the kernels that its vendor wrote for an operator.
enum class Source : uint8_t { kKit = 0, kLibrary = 1, kVendor = 2, kUser = 3 };

constexpr uint64_t kAllDtypes = ~uint64_t{0};  // bit i: ScalarType(i)

// Keys of tensors that the kit's kernels for dense tensors must not see.
inline constexpr c10::DispatchKeySet kOtherLayoutKeys({c10::DispatchKey::Sparse,
                                                       c10::DispatchKey::SparseCsr,
                                                       c10::DispatchKey::NestedTensor,
                                                       c10::DispatchKey::Quantized});

// The registration of a vendor's or user's kernel. Readers of an entry take no lock, so the last
// user releases the kernel's code.
struct KernelUses {
  KernelUses() : token(std::make_shared<c10::KernelToken>()) {}
  explicit KernelUses(std::shared_ptr<c10::KernelToken> token_) : token(std::move(token_)) {}

  // Invalid once the kernel was removed. PyTorch's, for a kernel that its dispatcher has; shared
  // with the kernels that were made of this one.
  const std::shared_ptr<c10::KernelToken> token;
  std::atomic<int> users{1};  // the entry, and calls under way
};

// A kernel over device tensors.
struct RoutedKernel {
  c10::KernelFunction kernel;
  // Instead of `kernel`: one that may decline a call. One of the kit's runs only where the device's
  // placement (placement.h) is the device.
  std::shared_ptr<DeviceKernel> device_kernel;
  Source source = Source::kKit;
  Placement placement = Placement::kDevice;  // as reported
  c10::DeviceIndex device = -1;              // -1: every device
  uint64_t dtypes = kAllDtypes;       // of the first tensor argument, else of the dtype argument
  bool separate_memory_only = false;  // not on devices that share memory with the host
  // Of vendors' and users' kernels, which may decline a call by throwing (external/decline.h).
  std::shared_ptr<KernelUses> uses;
  std::string origin;    // of those: where they were registered, "file:line"
  bool raw = false;      // registered with PyTorch's dispatcher
  bool follows = false;  // made of the kernel of the out= form (external/following_forms.h)

  bool is_registered() const noexcept { return uses == nullptr || uses->token->isValid(); }
};

struct CpuPlan;

// The best kernels of an operator beside the CPU's.
enum class DeviceKernels : uint8_t {
  kNone = 0,
  kBuiltIn = 1,   // of the kit: run where the device's placement is the device
  kExternal = 2,  // of hardware vendors and users: run wherever they match
};

struct Operator {
  explicit Operator(std::string name_);

  const std::string name;  // "aten::add.Tensor"
  std::atomic<DeviceKernels> device_kernels{DeviceKernels::kNone};
  // Snapshot of the rows, best first; replaced as a whole. Old ones are kept, but not the code of
  // kernels that were removed.
  std::atomic<const std::vector<std::shared_ptr<RoutedKernel>>*> kernels{nullptr};
  // By placement: whether its use was warned about (fallback_policy.h).
  std::atomic<bool> warned[kPlacements] = {};
  // How to bring the arguments to the host (host_call.h), made at the first use.
  std::atomic<const CpuPlan*> cpu_plan{nullptr};
};

// The entry of an overload ("aten::add.Tensor"), made when it does not exist. Never moves or dies.
OUTBOARD_API Operator& router_entry(const std::string& name);

// Adds a kernel to an entry; takes effect for the next call. Returns a token for remove_kernel.
OUTBOARD_API std::shared_ptr<RoutedKernel> add_kernel(const std::string& name, RoutedKernel kernel);
// The same for an overload that is registered already.
std::shared_ptr<RoutedKernel> add_kernel_to_entry(Operator& entry, RoutedKernel kernel);
// Releases the kernel's code once no call runs it any more, and so a Python function. The second
// time it does nothing.
OUTBOARD_API void remove_kernel(const std::string& name,
                                const std::shared_ptr<RoutedKernel>& kernel);
// Ends a use of a vendor's or user's kernel; the last one releases its code.
void end_use(RoutedKernel& kernel) noexcept;

// Counts reasons for which typed kernels must call the router: the report is on, or a policy
// other than the default for `kHost` is set.
extern OUTBOARD_API std::atomic<int> g_router_watchers;

// Whether a typed kernel may run `op` at once as a host kernel on `device`'s memory: the device
// shares memory with the host, nothing replaced the operator for such a call and no report is on.
// The caller still has to synchronize the current stream.
inline bool runs_plainly(const Operator& op, c10::DeviceIndex device) {
  if (g_router_watchers.load(std::memory_order_relaxed) != 0) return false;
  const DeviceKernels known = op.device_kernels.load(std::memory_order_acquire);
  if (known == DeviceKernels::kExternal) return false;
  if (known == DeviceKernels::kBuiltIn && runs_on_device(device)) return false;
  return shares_host_memory(device);
}

// The kernels of an overload, best first.
OUTBOARD_API std::vector<std::shared_ptr<RoutedKernel>> kernels_of(const std::string& name);

// Every name that has an entry, sorted.
OUTBOARD_API std::vector<std::string> router_names();

// Registers a boxed functor with the dispatcher for every overload that has a CPU kernel, and the
// rows of the kit, where no other library was first. Once, at load.
OUTBOARD_API void register_operators();
// Registers what others may want to register between the load of the kit and the first use of the
// device, and looks for their kernels. Doing it twice does nothing.
OUTBOARD_API void finish_registrations();
// Around registrations of others after the first use. In between the place of the fallback for all
// operators is free, and PyTorch refuses operators of other libraries that have no kernel for the
// device. At the end the kit takes the place if it is still free, and looks for kernels. Pairs
// nest.
OUTBOARD_API void begin_registering();
OUTBOARD_API void end_registering();
// Makes sure that calls of this overload reach the router. A kernel of another library that they
// reach now becomes a row of the entry.
void ensure_registered(const std::string& name);
// Whether they do: the kit's memory, views and copies do not.
OUTBOARD_API bool reaches_router(const std::string& name);
// The same for the overloads of aten among `names` for which others registered kernels of the
// device. Names that do not exist are skipped.
OUTBOARD_API void find_raw_kernels(const std::vector<c10::OperatorName>& names);

// Runs an operator with its arguments on a stack, by the kernel that its entry chooses. While
// arguments are borrowed, which they may be before and after, they stay below the results.
class BorrowedArguments;
OUTBOARD_API void call_routed_boxed(Operator& entry, const c10::OperatorHandle& op,
                                    c10::DispatchKeySet keys, torch::jit::Stack* stack,
                                    BorrowedArguments* borrowed = nullptr);

// ---- Rows of the kit -----------------------------------------------------------------------

// How the kit registers its kernels: a static row per overload, read once at load.
struct KernelRow {
  const char* name;  // without namespace: "add.Tensor"
  // For a kernel the dispatcher calls itself, or for one behind the boxed router. Neither: the
  // overload is only to reach the router, though PyTorch has a composite of its own for it.
  torch::CppFunction (*make_direct)();
  c10::KernelFunction (*make_routed)();
  KernelRow* next;
};
OUTBOARD_API void add_row(KernelRow* row) noexcept;
struct KernelRowRegistrar {
  explicit KernelRowRegistrar(KernelRow* row) noexcept { add_row(row); }
};

}  // namespace outboard

#define OUTBOARD_ROW_2(unique, op_name, direct, routed)                                    \
  static ::outboard::KernelRow outboard_row_##unique = {op_name, direct, routed, nullptr}; \
  static ::outboard::KernelRowRegistrar outboard_registrar_##unique(&outboard_row_##unique);
#define OUTBOARD_ROW_1(unique, ...) OUTBOARD_ROW_2(unique, __VA_ARGS__)

// A typed kernel over device tensors which the dispatcher calls directly; it works on every device
// and every dtype by itself (falling back to call_routed for arguments it does not take).
#define OUTBOARD_DIRECT(op_name, function) \
  OUTBOARD_ROW_1(                          \
      __COUNTER__, op_name,                \
      []() -> torch::CppFunction { return torch::CppFunction(TORCH_FN(function)); }, nullptr)

// A kernel over device tensors that replaces the generic CPU fallback of one operator (because the
// CPU kernel is not usable: random numbers, fused cells). It stands behind the router, so policies,
// reports and vendors' kernels apply.
#define OUTBOARD_ROUTED(op_name, function)                                    \
  OUTBOARD_ROW_1(__COUNTER__, op_name, nullptr, []() -> c10::KernelFunction { \
    return c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(function));  \
  })

// A composite operator that runs on the host as a whole instead of in its parts.
#define OUTBOARD_BOXED(op_name) OUTBOARD_ROW_1(__COUNTER__, op_name, nullptr, nullptr)
