#include "runtime/streams/work_limit.h"

#include <algorithm>
#include <utility>

#include "runtime/settings.h"

namespace outboard {
namespace {

// Driver calls between two looks; 0: the work in flight is not limited.
uint64_t calls_between_looks() {
  static const uint64_t calls = [] {
    const double allowed = number_setting(kWorkInFlight);
    return allowed < 1 ? uint64_t{0} : std::max<uint64_t>(1, static_cast<uint64_t>(allowed / 2));
  }();
  return calls;
}

}  // namespace

void WorkLimit::apply_to(StreamState& stream) {
  if (calls_between_looks() == 0) return;
  stream.limit = new WorkLimit;
  stream.next_check.store(calls_between_looks(), std::memory_order_relaxed);
}

void limit_work_in_flight(StreamState& stream, uint64_t count) noexcept {
  WorkLimit& limit = *stream.limit;
  const uint64_t calls = calls_between_looks();
  std::optional<StreamMarker> earlier;
  {
    std::lock_guard<std::mutex> lock(limit.mutex_);
    if (count < stream.next_check.load(std::memory_order_relaxed)) return;
    stream.next_check.store(count + calls, std::memory_order_relaxed);
    // Captured work runs at the replay, which counts as one call.
    if (stream.capturing.load(std::memory_order_acquire)) return;
    const uint64_t completed = stream.completed.load(std::memory_order_acquire);
    if (completed + calls > count && !stream.external) {
      // Who waits anyway is not slowed down by markers.
      stream.next_check.store(std::max(completed + calls, count + 1), std::memory_order_relaxed);
      limit.marker_.reset();
      return;
    }
    earlier = std::exchange(limit.marker_, StreamMarker(stream));
  }
  if (earlier.has_value()) earlier->wait();
}

}  // namespace outboard
