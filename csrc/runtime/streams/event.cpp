#include "runtime/streams/event.h"

#include <c10/util/Exception.h>

#include "runtime/driver/driver_table.h"
#include "runtime/recording/event_time.h"
#include "runtime/recording/recorded_call.h"
#include "runtime/streams/wait.h"

namespace outboard {

void EventDestroyer::operator()(ob_event event) const noexcept {
  const ob_driver* table = usable_driver();
  if (table != nullptr) defer_status(table->event_destroy(table->context, event), "event_destroy");
}

ob_status create_event(const ob_driver& table, c10::DeviceIndex device, uint32_t flags,
                       OwnedEvent& event) {
  const ob_event_description wanted = {
      .struct_size = sizeof(wanted), .device = device, .flags = flags};
  ob_event made = nullptr;
  const ob_status status = table.event_create(table.context, &wanted, &made);
  if (status == OB_OK) event.reset(made);
  return status;
}

// ---- Event ----

void Event::record(const c10::Stream& stream) {
  StreamState& state = stream_state(stream);
  TORCH_CHECK(device_ == -1 || device_ == state.device, "an event of ", device_of(device_),
              " cannot be recorded on a stream of ", device_of(state.device),
              "; make one event per device");
  if (event_ == nullptr) {
    const uint32_t flags = timing_ ? OB_EVENT_TIMING : 0;
    check_status(create_event(driver(), state.device, flags, event_), "event_create");
    device_ = state.device;
  }
  OB_CALL(event_record, event_.get(), state.queue);
  state.mark_submitted();
}

void Event::block(const c10::Stream& stream) const {
  if (event_ == nullptr) return;
  StreamState& state = stream_state(stream);
  RecordedWork record(state, ActivityKind::kWait, "event_wait", "Stream Wait Event");
  OB_CALL(event_wait, state.queue, event_.get());
  state.mark_submitted();
  record.enqueued();
}

bool Event::query() const {
  if (event_ == nullptr) return true;
  const ob_status status = OB_ASK(event_query, event_.get());
  if (status == OB_NOT_READY) return false;
  check_status(status, "event_query");
  return true;
}

void Event::synchronize() const {
  if (event_ == nullptr) return;
  check_wait(wait_for_event(driver(), event_.get()), "event_synchronize");
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
  OB_CALL(event_elapsed, event_.get(), end.event_.get(), &milliseconds);
  return milliseconds;
}

uint64_t Event::time() const {
  TORCH_CHECK(timing_ && created() && query(),
              "an event has a time if it was made with enable_timing=True, recorded, and has "
              "happened; synchronize first");
  return event_time(device_, event_.get());
}

// ---- StreamMarker ----

StreamMarker::StreamMarker(StreamState& stream) noexcept : stream_(&stream) {
  const ob_driver* table = usable_driver();
  if (table == nullptr) return;
  ob_status status = create_event(*table, stream.device, 0, event_);
  if (status != OB_OK) {
    defer_status(status, "event_create");
    return;
  }
  status = table->event_record(table->context, event_.get(), stream.queue);
  if (status != OB_OK) {
    defer_status(status, "event_record");
    event_.reset();
  }
}

bool StreamMarker::has_passed() const noexcept {
  const ob_driver* table = usable_driver();
  if (table == nullptr) return false;
  const ob_status status = event_ != nullptr ? table->event_query(table->context, event_.get())
                                             : table->queue_query(table->context, stream_->queue);
  defer_status(status, event_ != nullptr ? "event_query" : "queue_query");
  // After a failed query the work may still run; only a wait tells.
  return status == OB_OK;
}

bool StreamMarker::wait() const noexcept {
  const ob_driver* table = usable_driver();
  if (table == nullptr) return false;
  if (event_ != nullptr) {
    const ob_status status = wait_for_event(*table, event_.get());
    if (status == OB_OK || status == OB_NOT_READY) return status == OB_OK;
    defer_status(status, "event_synchronize");
  }
  // An error of the work: the wait has ended all the same.
  const ob_status status = wait_for_queue(*table, stream_->queue);
  defer_status(status, "queue_synchronize");
  return status != OB_NOT_READY;
}

}  // namespace outboard
