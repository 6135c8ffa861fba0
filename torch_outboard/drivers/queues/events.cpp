// Events, which point to their latest recording, and callbacks.
#include <ctime>

#include "common/failure.h"
#include "queues.h"

struct ob_event_t {
  int32_t device;
  uint32_t flags;
  std::mutex mutex = {};
  std::shared_ptr<drivers::Recording> latest = {};  // empty: never recorded
};

namespace drivers {
namespace {

std::shared_ptr<Recording> latest_recording(ob_event event) {
  std::lock_guard lock(event->mutex);
  return event->latest;
}

bool is_pending(const std::shared_ptr<Recording>& asked) {
  if (!asked) return false;
  std::lock_guard lock(asked->mutex);
  return !asked->happened;
}

void wait(const std::shared_ptr<Recording>& awaited) {
  std::unique_lock lock(awaited->mutex);
  awaited->changed.wait(lock, [&] { return awaited->happened; });
}

ob_status event_create(const ob_event_description* wanted, ob_event* event) {
  check_device(wanted->device);
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
  auto recording = std::make_shared<Recording>();
  enqueue(queue, {.recording = recording});
  std::lock_guard lock(event->mutex);
  event->latest = std::move(recording);
  return OB_OK;
}

ob_status event_wait(ob_queue queue, ob_event event) {
  const auto awaited = latest_recording(event);
  if (awaited) enqueue(queue, {.run = [awaited] { wait(awaited); }});
  return OB_OK;
}

ob_status event_query(ob_event event) {
  return is_pending(latest_recording(event)) ? OB_NOT_READY : OB_OK;
}

ob_status event_synchronize(ob_event event) {
  if (const auto awaited = latest_recording(event)) wait(awaited);
  return OB_OK;
}

ob_status event_elapsed(ob_event start, ob_event end, double* milliseconds) {
  const auto from = latest_recording(start), to = latest_recording(end);
  if ((start->flags & end->flags & OB_EVENT_TIMING) == 0 || start->device != end->device || !from ||
      !to) {
    fail(OB_INVALID_ARGUMENT,
         "Time passes between two events of one device that were created with timing enabled and "
         "were recorded.");
  }
  if (is_pending(from) || is_pending(to)) return OB_NOT_READY;
  *milliseconds = 1e3 * static_cast<double>(to->time.tv_sec - from->time.tv_sec) +
                  1e-6 * static_cast<double>(to->time.tv_nsec - from->time.tv_nsec);
  return OB_OK;
}

ob_status host_callback(ob_queue queue, ob_host_function function, void* argument) {
  if (function == nullptr) fail(OB_INVALID_ARGUMENT, "The callback is NULL.");
  enqueue(queue, {.run = [=] { function(argument); }});
  return OB_OK;
}

}  // namespace

void Recording::happen() {
  std::lock_guard lock(mutex);
  clock_gettime(CLOCK_MONOTONIC, &time);
  happened = true;
  changed.notify_all();
}

void set_event_functions(ob_driver& table) {
  OB_SET(table, event_create);
  OB_SET(table, event_destroy);
  OB_SET(table, event_record);
  OB_SET(table, event_wait);
  OB_SET(table, event_query);
  OB_SET(table, event_synchronize);
  OB_SET(table, event_elapsed);
  OB_SET(table, host_callback);
}

}  // namespace drivers
