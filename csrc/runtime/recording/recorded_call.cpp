#include "runtime/recording/recorded_call.h"

#include <memory>
#include <utility>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"

namespace outboard {

struct RecordedWork::Work {
  StreamState& stream;
  Activity activity;
  TimingEvents events;
  bool by_launch = false;  // the driver records the events itself
};

namespace {

bool record(StreamState& stream, ob_event event) noexcept {
  if (OB_ASK(event_record, event, stream.queue) != OB_OK) return false;
  stream.mark_submitted();
  return true;
}

}  // namespace

void RecordedHostCall::finish() noexcept {
  Activity activity;
  activity.call = call_;
  activity.thread = thread_number();
  activity.correlation = current_correlation();
  activity.call_begin = begin_;
  activity.call_end = host_nanoseconds();
  log_activity(std::move(activity), {});
}

void RecordedWork::begin(StreamState& stream, ActivityKind kind, const char* call, const char* name,
                         uint64_t bytes) {
  const ob_driver& table = driver();
  work_ = new Work{stream, {}, {}};
  Activity& activity = work_->activity;
  activity.kind = kind;
  activity.call = call;
  activity.name = name;
  activity.thread = thread_number();
  activity.correlation = current_correlation();
  activity.device = stream.device;
  activity.stream = stream.id;
  activity.bytes = bytes;
  work_->by_launch = kind == ActivityKind::kKernel &&
                     (device_properties(stream.device).features & OB_FEATURE_LAUNCH_EVENTS) != 0;
  // Work that is captured into a graph does not run now.
  if (!stream.capturing.load(std::memory_order_acquire) &&
      work_->events.create(table, stream.device) && !work_->by_launch &&
      !record(stream, work_->events.begin.get())) {
    work_->events = {};
  }
  activity.call_begin = host_nanoseconds();
}

void RecordedWork::describe(const std::string& kernel, ob_launch& launch, uint64_t local_memory) {
  Activity& activity = work_->activity;
  activity.name = kernel;
  activity.local_memory = local_memory;
  for (size_t i = 0; i < activity.global.size(); ++i) {
    activity.global[i] = launch.global[i];
    activity.local[i] = launch.local[i];
  }
  if (!work_->by_launch || work_->events.end == nullptr) return;
  launch.start = work_->events.begin.get();
  launch.end = work_->events.end.get();
}

void RecordedWork::finish() noexcept {
  const std::unique_ptr<Work> work(std::exchange(work_, nullptr));
  work->activity.call_end = host_nanoseconds();
  if (work->events.end != nullptr && !work->by_launch &&
      !record(work->stream, work->events.end.get())) {
    work->events = {};
  }
  log_activity(std::move(work->activity), std::move(work->events));
  read_finished_work();
}

void RecordedWork::discard() noexcept { delete std::exchange(work_, nullptr); }

}  // namespace outboard
