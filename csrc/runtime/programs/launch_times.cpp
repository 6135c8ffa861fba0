#include "runtime/programs/launch_times.h"

#include <mutex>
#include <utility>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_requests.h"
#include "runtime/driver/driver_table.h"
#include "runtime/streams/event.h"
#include "runtime/streams/wait.h"

namespace outboard {

std::atomic<bool> g_times_launches{false};

namespace {

struct Timed {
  std::string kernel;
  StreamState* stream;
  ob_event start;
  ob_event end;
};

struct Launches {
  std::mutex mutex;
  std::vector<Timed> timed;
};

// Leaked: kernels are launched while the process exits.
Launches& launches() {
  static auto* instance = new Launches;
  return *instance;
}

void destroy(ob_event event) noexcept {
  if (event != nullptr) defer_status(OB_ASK(event_destroy, event), "event_destroy");
}

}  // namespace

TimedLaunch::TimedLaunch(StreamState& stream, const std::string& kernel, ob_launch& launch) noexcept
    : stream_(stream), kernel_(kernel) {
  // What is recorded into a graph has no time now.
  if (stream.capturing.load(std::memory_order_acquire)) return;
  const ob_driver& table = driver();
  const auto& properties = device_properties(stream.device);
  by_launch_ = (properties.features & OB_FEATURE_LAUNCH_EVENTS) != 0;
  ob_status status = create_event(table, stream.device, OB_EVENT_TIMING, &start_);
  if (status == OB_OK) status = create_event(table, stream.device, OB_EVENT_TIMING, &end_);
  if (status == OB_OK && !by_launch_) {
    status = table.event_record(table.context, start_, stream.queue);
    stream.mark_submitted();
  }
  if (status != OB_OK) {
    destroy(std::exchange(start_, nullptr));
    destroy(std::exchange(end_, nullptr));
  } else if (by_launch_) {
    launch.start = start_;
    launch.end = end_;
  }
}

TimedLaunch::~TimedLaunch() {
  destroy(start_);
  destroy(end_);
}

void TimedLaunch::launched() noexcept {
  if (end_ == nullptr) return;
  if (!by_launch_) {
    if (OB_ASK(event_record, end_, stream_.queue) != OB_OK) return;
    stream_.mark_submitted();
  }
  Launches& all = launches();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.timed.push_back(
      {kernel_, &stream_, std::exchange(start_, nullptr), std::exchange(end_, nullptr)});
}

void time_launches(bool on) { g_times_launches.store(on, std::memory_order_relaxed); }

std::vector<LaunchTime> take_launch_times() {
  std::vector<Timed> timed;
  {
    Launches& all = launches();
    std::lock_guard<std::mutex> lock(all.mutex);
    timed.swap(all.timed);
  }
  std::vector<LaunchTime> times;
  for (Timed& launch : timed) {
    try {
      check_wait(wait_for_event(driver(), launch.end), "event_synchronize");
      const c10::DeviceIndex device = launch.stream->device;
      times.push_back({std::move(launch.kernel), device, launch.stream->id,
                       event_time(device, launch.start), event_time(device, launch.end)});
    } catch (const c10::Error&) {
      // The work failed, which whoever waits for the stream is told.
    }
    destroy(launch.start);
    destroy(launch.end);
  }
  return times;
}

}  // namespace outboard
