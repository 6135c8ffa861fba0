// Events. An event points to its latest recording.
#include <common/system.h>

#include "command.h"

struct ob_event_t {
  const int32_t device;
  const uint32_t flags;
  std::mutex mutex = {};
  std::shared_ptr<queues::Recording> latest = {};  // NULL: never recorded
};

namespace queues {

void Recording::wait() {
  if (has_happened()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_happened(); });
}

void Recording::happen() {
  std::lock_guard lock(mutex_);
  time_ = nanoseconds();
  --missing_;
  changed_.notify_all();
}

namespace {

std::shared_ptr<Recording> latest_of(ob_event event) {
  std::lock_guard lock(event->mutex);
  return event->latest;
}

// Of an event with times.
std::shared_ptr<Recording> timed_recording_of(ob_event event) {
  if ((event->flags & OB_EVENT_TIMING) == 0) {
    fail(OB_INVALID_ARGUMENT, "The event must be created with timing enabled.");
  }
  auto latest = latest_of(event);
  if (latest == nullptr) fail(OB_INVALID_ARGUMENT, "The event must have been recorded.");
  return latest;
}

ob_status event_create(const ob_event_description* wanted, ob_event* event) {
  drivers::check(check_device(wanted->device));
  *event = new ob_event_t{wanted->device, wanted->flags};
  return OB_OK;
}

ob_status event_destroy(ob_event event) {
  delete event;
  return OB_OK;
}

ob_status event_record(ob_event event, ob_queue queue) {
  if (event->device != device_of(queue)) {
    fail(OB_INVALID_ARGUMENT, "An event of device %d cannot be recorded on device %d.",
         event->device, device_of(queue));
  }
  auto recorded = std::make_shared<Recording>();
  enqueue(queue, Record{recorded});
  std::lock_guard lock(event->mutex);
  event->latest.swap(recorded);
  return OB_OK;
}

ob_status event_wait(ob_queue queue, ob_event event) {
  if (auto awaited = latest_of(event)) enqueue(queue, Wait{std::move(awaited)});
  return OB_OK;
}

ob_status event_query(ob_event event) {
  const auto latest = latest_of(event);
  return latest == nullptr || latest->has_happened() ? OB_OK : OB_NOT_READY;
}

ob_status event_synchronize(ob_event event) {
  if (const auto awaited = latest_of(event)) awaited->wait();
  return OB_OK;
}

ob_status event_time(ob_event event, uint64_t* nanoseconds) {
  const auto latest = timed_recording_of(event);
  if (!latest->has_happened()) return OB_NOT_READY;
  *nanoseconds = latest->time();
  return OB_OK;
}

ob_status event_elapsed(ob_event start, ob_event end, double* milliseconds) {
  if (start->device != end->device) {
    fail(OB_INVALID_ARGUMENT, "The events belong to devices %d and %d.", start->device,
         end->device);
  }
  const auto from = timed_recording_of(start), to = timed_recording_of(end);
  if (!from->has_happened() || !to->has_happened()) return OB_NOT_READY;
  *milliseconds = 1e-6 * static_cast<double>(static_cast<int64_t>(to->time() - from->time()));
  return OB_OK;
}

}  // namespace

void set_event_functions(ob_driver& table) {
  OB_SET(table, event_create);
  OB_SET(table, event_destroy);
  OB_SET(table, event_record);
  OB_SET(table, event_wait);
  OB_SET(table, event_query);
  OB_SET(table, event_synchronize);
  OB_SET(table, event_elapsed);
  OB_SET(table, event_time);
}

}  // namespace queues
