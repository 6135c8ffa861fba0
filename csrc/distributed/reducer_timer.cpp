// DistributedDataParallel's step times, by events of the current stream.
//
// Without a timer for the device they stay zero, and PyTorch warns.
#if __has_include(<torch/csrc/distributed/c10d/reducer_timer.hpp>)

#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <map>

#include "runtime/streams/event.h"
#include "runtime/streams/stream.h"

namespace outboard::distributed {
namespace {

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

}  // namespace
}  // namespace outboard::distributed

namespace c10d {
namespace {

C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, outboard::distributed::DeviceTimer)

}  // namespace
}  // namespace c10d

#endif
