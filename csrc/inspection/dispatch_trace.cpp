#include "inspection/dispatch_trace.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>

#include "dispatch/report.h"
#include "dispatch/tensor_arguments.h"
#include "runtime/global.h"
#include "runtime/streams/event.h"

namespace outboard {
namespace {

constexpr size_t kMostCalls = 1'000'000;

struct Trace {
  std::vector<TracedCall> calls;
  uint64_t dropped = 0;
  uint64_t threads = 0;
  at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
};

// Number of the running trace, from 1; 0: none. Thread state belongs to one trace.
std::atomic<uint64_t> g_running{0};
uint64_t g_traces = 0;  // under the mutex

struct ThreadState {
  uint64_t trace = 0;
  uint64_t thread = 0;
  std::vector<int64_t> open;  // numbers of running calls, outermost first; -1: dropped
};
thread_local ThreadState t_state;

struct OpenCall final : at::ObserverContext {
  uint64_t trace = 0;
  int64_t number = -1;
  int exceptions = 0;
  uint64_t start = 0;
};

class KeyCollector {
 public:
  void see(const c10::IValue& value, TracedCall& call) {
    for_each_tensor(value, [&](const at::Tensor& tensor) { see(tensor, call); });
    if (value.isDevice()) {
      factory_ = value.toDevice();
      if (call.device.empty()) call.device = factory_->str();
    } else if (value.isGenerator() && value.toGenerator().defined()) {
      keys_ = keys_ | value.toGenerator().key_set();
    }
  }

  // As in the dispatcher: keys of arguments, plus the thread's included, minus its excluded keys.
  std::vector<c10::DispatchKey> keys() const {
    const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
    c10::DispatchKeySet left = (keys_ | local.included_) - local.excluded_;
    // Factories without tensors get their device's key at BackendSelect.
    if (factory_.has_value() && left.has(c10::DispatchKey::BackendSelect)) {
      left = left.add(c10::computeDispatchKey(std::nullopt, std::nullopt, factory_));
    }
    std::vector<c10::DispatchKey> found;
    while (left.highestPriorityTypeId() != c10::DispatchKey::Undefined) {
      found.push_back(left.highestPriorityTypeId());
      const c10::DispatchKeySet after =
          left & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, found.back());
      if (after == left) break;
      left = after;
    }
    return found;
  }

 private:
  void see(const at::Tensor& tensor, TracedCall& call) {
    keys_ = keys_ | tensor.key_set();
    if (call.dtype != at::ScalarType::Undefined) return;
    call.dtype = tensor.scalar_type();
    call.device = tensor.device().str();
  }

  c10::DispatchKeySet keys_;
  std::optional<c10::Device> factory_;
};

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  const uint64_t running = g_running.load(std::memory_order_acquire);
  if (running == 0) return nullptr;
  TracedCall call;
  const auto name = function.operator_name();
  call.is_operator = name.has_value();
  call.name = name.has_value() ? c10::toString(*name) : std::string(function.name());
  if (call.is_operator) {
    KeyCollector collector;
    for (const c10::IValue& value : function.inputs()) collector.see(value, call);
    call.keys = collector.keys();
  }
  auto open = std::make_unique<OpenCall>();
  open->trace = running;
  open->exceptions = std::uncaught_exceptions();
  {
    const Locked<Trace> all;
    if (g_running.load() != running) return nullptr;
    if (t_state.trace != running) t_state = {running, all->threads++, {}};
    call.thread = t_state.thread;
    if (!t_state.open.empty()) call.parent = t_state.open.back();
    if (all->calls.size() < kMostCalls) {
      open->number = static_cast<int64_t>(all->calls.size());
      all->calls.push_back(std::move(call));
    } else {
      ++all->dropped;
    }
  }
  t_state.open.push_back(open->number);
  open->start = host_nanoseconds();
  return open;
}

void leave(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto& open = *static_cast<OpenCall*>(context);
  const uint64_t spent = host_nanoseconds() - open.start;
  // A range may end on another thread than it began on.
  if (t_state.trace == open.trace && !t_state.open.empty() && t_state.open.back() == open.number) {
    t_state.open.pop_back();
  }
  if (open.number < 0) return;
  const Locked<Trace> all;
  if (g_running.load() != open.trace) return;
  TracedCall& call = all->calls[static_cast<size_t>(open.number)];
  call.nanoseconds = spent;
  call.raised = std::uncaught_exceptions() > open.exceptions;
}

// Called by the router: sets the placement of this thread's innermost call of that name.
void note_placement(const Operator& entry, Placement placement) noexcept {
  const uint64_t running = g_running.load(std::memory_order_acquire);
  if (running == 0 || t_state.trace != running) return;
  const Locked<Trace> all;
  if (g_running.load() != running) return;
  for (auto number = t_state.open.rbegin(); number != t_state.open.rend(); ++number) {
    if (*number < 0) return;
    TracedCall& call = all->calls[static_cast<size_t>(*number)];
    if (call.name != entry.name) continue;
    call.placement = placement;
    return;
  }
}

}  // namespace

void start_dispatch_trace() {
  const Locked<Trace> all;
  TORCH_CHECK(g_running.load() == 0,
              "a trace was started while another one runs; end that one first");
  all->calls.clear();
  all->dropped = 0;
  all->threads = 0;
  set_call_listener(&note_placement);
  // Makes typed kernels call the router, which reports.
  start_report(CallSites::kNone);
  all->callback =
      at::addGlobalCallback(at::RecordFunctionCallback(&enter, &leave).needsInputs(true));
  g_running.store(++g_traces, std::memory_order_release);
}

std::vector<TracedCall> stop_dispatch_trace(uint64_t& dropped) {
  const Locked<Trace> all;
  dropped = all->dropped;
  if (g_running.load() == 0) return {};
  g_running.store(0, std::memory_order_release);
  at::removeCallback(all->callback);
  set_call_listener(nullptr);
  stop_report();
  return std::exchange(all->calls, {});
}

}  // namespace outboard
