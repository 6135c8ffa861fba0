// Faults of events.
#include "broken.h"

#include <map>
#include <set>

using namespace broken;

namespace {

std::mutex lock;
std::set<ob_event> recorded, destroyed, untimed;
std::map<ob_event, timespec> times;

double milliseconds_between(const timespec& a, const timespec& b) {
  return 1e3 * static_cast<double>(b.tv_sec - a.tv_sec) +
         1e-6 * static_cast<double>(b.tv_nsec - a.tv_nsec);
}

}  // namespace

FAULT("never_recorded_is_pending") {
  table.event_record = [](void*, ob_event event, ob_queue queue) {
    std::lock_guard guard(lock);
    recorded.insert(event);
    return BASE(event_record, event, queue);
  };
  table.event_query = [](void*, ob_event event) {
    std::lock_guard guard(lock);
    return recorded.count(event) == 0 ? ob_status(OB_NOT_READY) : BASE(event_query, event);
  };
}
FAULT("events_have_always_happened") {
  table.event_query = [](void*, ob_event) { return ob_status(OB_OK); };
}
FAULT("event_synchronize_returns_early") {
  table.event_synchronize = [](void*, ob_event) { return ob_status(OB_OK); };
}
FAULT("event_waits_are_forgotten") {
  table.event_wait = [](void*, ob_queue, ob_event) { return ob_status(OB_OK); };
}
FAULT("event_record_waits") {
  table.event_record = [](void*, ob_event event, ob_queue queue) {
    const ob_status status = BASE(event_record, event, queue);
    return status == OB_OK ? BASE(event_synchronize, event) : status;
  };
}
FAULT("waits_follow_the_last_recording") {
  table.event_wait = [](void*, ob_queue queue, ob_event event) {
    const auto run = [](void* event) {
      sleep_ms(20);
      BASE(event_synchronize, static_cast<ob_event>(event));
    };
    return BASE(host_callback, queue, run, event);
  };
}
FAULT("used_after_it_was_destroyed") {
  table.event_wait = [](void*, ob_queue queue, ob_event event) {
    const auto run = [](void* event) {
      sleep_ms(5);
      bool is_gone = false;
      {
        std::lock_guard guard(lock);
        is_gone = destroyed.count(static_cast<ob_event>(event)) != 0;
      }
      // What freed memory would hold: an event that has happened.
      if (!is_gone) BASE(event_synchronize, static_cast<ob_event>(event));
    };
    return BASE(host_callback, queue, run, event);
  };
  table.event_destroy = [](void*, ob_event event) {
    std::lock_guard guard(lock);
    destroyed.insert(event);
    return ob_status(OB_OK);
  };
}
FAULT("crash_on_destroy") {
  table.event_destroy = [](void*, ob_event event) {
    if (BASE(event_query, event) == OB_NOT_READY) __builtin_trap();
    return BASE(event_destroy, event);
  };
}
FAULT("elapsed_in_seconds") {
  table.event_elapsed = [](void*, ob_event start, ob_event end, double* milliseconds) {
    const ob_status status = BASE(event_elapsed, start, end, milliseconds);
    *milliseconds /= 1000;
    return status;
  };
}
FAULT("times_of_calls") {  // not of the work
  table.event_record = [](void*, ob_event event, ob_queue queue) {
    std::lock_guard guard(lock);
    clock_gettime(CLOCK_MONOTONIC, &times[event]);
    return BASE(event_record, event, queue);
  };
  table.event_elapsed = [](void*, ob_event start, ob_event end, double* milliseconds) {
    const ob_status status = BASE(event_elapsed, start, end, milliseconds);
    std::lock_guard guard(lock);
    if (status == OB_OK) *milliseconds = milliseconds_between(times[start], times[end]);
    return status;
  };
}
FAULT("times_of_untimed_events") {
  table.event_elapsed = [](void*, ob_event start, ob_event end, double* milliseconds) {
    const ob_status status = BASE(event_elapsed, start, end, milliseconds);
    if (status == OB_INVALID_ARGUMENT) *milliseconds = 0;
    return status == OB_INVALID_ARGUMENT ? ob_status(OB_OK) : status;
  };
}
FAULT("times_of_pending_events") {
  table.event_elapsed = [](void*, ob_event start, ob_event end, double* milliseconds) {
    const ob_status status = BASE(event_elapsed, start, end, milliseconds);
    if (status == OB_NOT_READY) *milliseconds = 0;
    return status == OB_NOT_READY ? ob_status(OB_OK) : status;
  };
}
FAULT("another_clock") {
  table.event_time = [](void*, ob_event event, uint64_t* nanoseconds) {
    const ob_status status = BASE(event_time, event, nanoseconds);
    *nanoseconds += 5000000000;
    return status;
  };
}
FAULT("queue_of_another_device") {
  table.event_record = [](void*, ob_event event, ob_queue queue) {
    const ob_status status = BASE(event_record, event, queue);
    return status == OB_INVALID_ARGUMENT ? ob_status(OB_OK) : status;
  };
}
