// Registrations with torch.distributed beside the process group.
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#if __has_include(<torch/csrc/distributed/c10d/reducer_timer.hpp>)
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#define OUTBOARD_REDUCER_TIMER
#endif

#include <algorithm>
#include <map>

#include "runtime/streams/event.h"
#include "runtime/streams/stream.h"

namespace outboard::distributed {
namespace {

// ---- Gloo's point-to-point communication, which is rejected for device tensors
//
// Gloo rejects collectives on unknown devices, but `send` and `recv` pass the address to the
// network: before the work that fills the memory is done, and even if the host cannot access it.

void check_backend(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  const auto tensors = arguments[0].toListRef();
  const auto on_device = std::find_if(tensors.begin(), tensors.end(), [](const c10::IValue& value) {
    return value.toTensor().is_privateuseone();
  });
  if (on_device != tensors.end()) {
    const auto group = arguments[1].toCustomClass<c10d::ProcessGroup>();
    const std::string backend = group->getBackend(c10::DeviceType::PrivateUse1)->getBackendName();
    TORCH_CHECK(backend != "gloo", op.schema().name(), " was asked for a tensor on ",
                on_device->toTensor().device(),
                ", and Gloo sends and receives host memory only; send tensor.cpu(), or "
                "receive into a CPU tensor and copy it");
  }
  op.redispatchBoxed(
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect),
      stack);
}

// At a key that every call has, also in inference mode. The device's own key has PyTorch's kernels,
// which call the process group.
TORCH_LIBRARY_IMPL(c10d, BackendSelect, library) {
  for (const char* name : {"send", "recv_", "recv_any_source_"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&check_backend>());
  }
}

// ---- DistributedDataParallel's step times, by events of the current stream. Without a timer for
// the device they stay zero, and PyTorch warns.

#ifdef OUTBOARD_REDUCER_TIMER
class DeviceTimer final : public c10d::Timer {
 public:
  explicit DeviceTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    c10d::Timer::record(event);  // the host time
    auto& recorded = events_.try_emplace(event, /*timing=*/true).first->second;
    recorded.record(current_stream(device_.index()));
  }

  // Nanoseconds. nullopt if an event was not recorded, or if the end is before the start: events of
  // a step without synchronization belong to different steps.
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto from = events_.find(start), to = events_.find(end);
    if (from == events_.end() || to == events_.end()) return std::nullopt;
    from->second.synchronize();
    to->second.synchronize();
    const auto difference = static_cast<int64_t>(to->second.time() - from->second.time());
    if (difference < 0) return std::nullopt;
    return difference;
  }

 private:
  const c10::Device device_;
  std::map<Event, outboard::Event> events_;
};
#endif

}  // namespace
}  // namespace outboard::distributed

#ifdef OUTBOARD_REDUCER_TIMER
namespace c10d {
namespace {

C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, outboard::distributed::DeviceTimer)

}  // namespace
}  // namespace c10d
#endif
