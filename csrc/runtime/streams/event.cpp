#include "runtime/streams/event.h"

#include <c10/util/Exception.h>

#include <utility>

#include "runtime/driver/driver_requests.h"
#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
#include "runtime/programs/kernel_faults.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/wait.h"

namespace outboard {
namespace {

void destroy(ob_event event) noexcept {
  if (event == nullptr || in_bad_fork() || driver_finalized() || !driver_initialized()) return;
  defer_status(OB_ASK(event_destroy, event), "event_destroy");
}

}  // namespace

Event::~Event() { destroy(event_); }

Event::Event(Event&& other) noexcept
    : timing_(other.timing_),
      device_(other.device_),
      event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    destroy(event_);
    timing_ = other.timing_;
    device_ = other.device_;
    event_ = std::exchange(other.event_, nullptr);
  }
  return *this;
}

void Event::record(const c10::Stream& stream) {
  StreamState& state = stream_state(stream);
  TORCH_CHECK(device_ == -1 || device_ == state.device, "an event of ", device_of(device_),
              " cannot be recorded on a stream of ", device_of(state.device),
              "; make one event per device");
  if (event_ == nullptr) {
    const uint32_t flags = timing_ ? OB_EVENT_TIMING : 0;
    check_status(create_event(driver(), state.device, flags, &event_), "event_create");
    device_ = state.device;
  }
  OB_CALL(event_record, event_, state.queue);
  state.mark_submitted();
}

void Event::block(const c10::Stream& stream) const {
  if (event_ == nullptr) return;
  StreamState& state = stream_state(stream);
  OB_CALL(event_wait, state.queue, event_);
  state.mark_submitted();
}

bool Event::query() const {
  if (event_ == nullptr) return true;
  const ob_status status = OB_ASK(event_query, event_);
  if (status == OB_NOT_READY) return false;
  check_status(status, "event_query");
  return true;
}

void Event::synchronize() const {
  if (event_ == nullptr) return;
  check_wait(wait_for_event(driver(), event_), "event_synchronize");
  raise_deferred();
}

double Event::elapsed_time(const Event& end) const {
  TORCH_CHECK(timing_ && end.timing_, "elapsed_time needs two events made with enable_timing=True");
  TORCH_CHECK(created() && end.created(),
              "elapsed_time needs two events that have been recorded; record them first");
  TORCH_CHECK(device_ == end.device_, "elapsed_time needs two events of one device, not of ",
              device_of(device_), " and ", device_of(end.device_));
  TORCH_CHECK(query() && end.query(),
              "elapsed_time needs two events that have happened; synchronize first");
  double milliseconds = 0;
  OB_CALL(event_elapsed, event_, end.event_, &milliseconds);
  return milliseconds;
}

}  // namespace outboard
