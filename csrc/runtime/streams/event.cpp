#include "runtime/streams/event.h"

#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <cmath>

#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/recording/recording.h"
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

// ---- Times ----

namespace {

// An event and its time.
struct Anchor {
  OwnedEvent event;
  uint64_t time = 0;
};

// The event happens between two reads of the host's clock: the shorter that interval, the better.
ob_status record_anchor(const ob_driver& table, ob_queue queue, Anchor& anchor) {
  constexpr int kTries = 100;
  constexpr uint64_t kGoodInterval = 20'000;  // nanoseconds
  ob_status status = OB_OK;
  for (int i = 0; i < kTries && status == OB_OK; ++i) {
    const uint64_t before = host_nanoseconds();
    status = table.event_record(table.context, anchor.event.get(), queue);
    if (status == OB_OK) status = wait_for_event(table, anchor.event.get());
    const uint64_t after = host_nanoseconds();
    anchor.time = before + (after - before) / 2;
    if (after - before < kGoodInterval) break;
  }
  return status;
}

std::atomic<const Anchor*>& known_anchor(c10::DeviceIndex device) {
  return global<std::array<std::atomic<const Anchor*>, kMaxDevices>>()[device];
}

const Anchor& anchor_of(c10::DeviceIndex device) {
  std::atomic<const Anchor*>& known = known_anchor(device);
  if (const Anchor* anchor = known.load(std::memory_order_acquire)) return *anchor;
  const ob_driver& table = driver();
  auto made = std::make_unique<Anchor>();
  const TemporaryQueue queue(device);
  ob_status status = create_event(table, device, OB_EVENT_TIMING, made->event);
  if (status == OB_OK) status = record_anchor(table, queue.get(), *made);
  check_wait(status, "event_synchronize");
  // Of several threads the first publishes its anchor.
  const Anchor* expected = nullptr;
  if (known.compare_exchange_strong(expected, made.get())) return *made.release();
  return *expected;
}

}  // namespace

uint64_t host_nanoseconds() noexcept {
  return static_cast<uint64_t>(c10::getTime(/*allow_monotonic=*/true));
}

uint64_t event_time(c10::DeviceIndex device, ob_event event) {
  uint64_t nanoseconds = 0;
  if (driver().event_time != nullptr) {
    OB_CALL(event_time, event, &nanoseconds);
    return nanoseconds;
  }
  const Anchor& anchor = anchor_of(device);
  double milliseconds = 0;
  OB_CALL(event_elapsed, anchor.event.get(), event, &milliseconds);
  return anchor.time + static_cast<uint64_t>(std::llround(milliseconds * 1e6));
}

void forget_event_times(c10::DeviceIndex device) noexcept {
  delete known_anchor(device).exchange(nullptr);
}

bool TimingEvents::create(const ob_driver& table, c10::DeviceIndex device) noexcept {
  return create_event(table, device, OB_EVENT_TIMING, begin) == OB_OK &&
         create_event(table, device, OB_EVENT_TIMING, end) == OB_OK;
}

}  // namespace outboard
