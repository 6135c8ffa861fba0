// Events. An event points to its latest recording.
#include <ctime>

#include "riscv.h"

struct ob_event_t {
  int32_t device;
  uint32_t flags;
  std::mutex mutex = {};
  std::shared_ptr<riscv::Recording> latest = {};  // empty: never recorded
};

namespace riscv {
namespace {

std::shared_ptr<Recording> latest_recording(ob_event event) {
  std::lock_guard lock(event->mutex);
  return event->latest;
}

}  // namespace

void Recording::happen() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::lock_guard lock(mutex);
  time = now.tv_sec * int64_t{1000000000} + now.tv_nsec;
  happened = true;
  changed.notify_all();
}

void Recording::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return happened.load(); });
}

ob_status event_create(const ob_event_description* wanted, ob_event* event) {
  device_at(wanted->device);
  *event = new ob_event_t{wanted->device, wanted->flags};
  return OB_OK;
}

ob_status event_destroy(ob_event event) {
  delete event;
  return OB_OK;
}

ob_status event_record(ob_event event, ob_queue queue) {
  if (event->device != queue->device.index) {
    fail(OB_INVALID_ARGUMENT, "An event of device %d cannot be recorded on device %d.",
         event->device, queue->device.index);
  }
  auto recording = std::make_shared<Recording>();
  enqueue(queue, {.run = {}, .recording = recording});
  std::lock_guard lock(event->mutex);
  event->latest = std::move(recording);
  return OB_OK;
}

ob_status event_wait(ob_queue queue, ob_event event) {
  const std::shared_ptr<Recording> awaited = latest_recording(event);
  if (awaited) enqueue(queue, {.run = [awaited] { awaited->wait(); }, .recording = {}});
  return OB_OK;
}

ob_status event_query(ob_event event) {
  const std::shared_ptr<Recording> asked = latest_recording(event);
  return asked && !asked->happened ? OB_NOT_READY : OB_OK;
}

ob_status event_synchronize(ob_event event) {
  if (const std::shared_ptr<Recording> awaited = latest_recording(event)) awaited->wait();
  return OB_OK;
}

ob_status event_elapsed(ob_event start, ob_event end, double* milliseconds) {
  if ((start->flags & end->flags & OB_EVENT_TIMING) == 0) {
    fail(OB_INVALID_ARGUMENT, "Both events must be created with timing enabled.");
  }
  if (start->device != end->device) {
    fail(OB_INVALID_ARGUMENT, "The events belong to devices %d and %d.", start->device,
         end->device);
  }
  const std::shared_ptr<Recording> from = latest_recording(start), to = latest_recording(end);
  if (!from || !to) fail(OB_INVALID_ARGUMENT, "Both events must have been recorded.");
  if (!from->happened || !to->happened) return OB_NOT_READY;
  *milliseconds = 1e-6 * static_cast<double>(to->time - from->time);
  return OB_OK;
}

ob_status host_callback(ob_queue queue, ob_host_function function, void* argument) {
  if (function == nullptr) fail(OB_INVALID_ARGUMENT, "The callback is NULL.");
  enqueue(queue, {.run = [function, argument] { function(argument); }, .recording = {}});
  return OB_OK;
}

}  // namespace riscv
