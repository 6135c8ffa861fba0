#include "runtime/streams/event.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <cmath>
#include <utility>

#include "runtime/driver/driver_requests.h"
#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
#include "runtime/programs/kernel_faults.h"
#include "runtime/recording/recorded_call.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/wait.h"

namespace outboard {
namespace {

void destroy(ob_event event) noexcept {
  if (event == nullptr || in_bad_fork() || driver_finalized() || !driver_initialized()) return;
  defer_status(OB_ASK(event_destroy, event), "event_destroy");
}

// An event and when it happened.
struct Anchor {
  ob_event event = nullptr;
  uint64_t time = 0;
};

// The shorter the time between the host's two looks at its clock, the better the result.
ob_status try_anchor(const ob_driver& table, ob_queue queue, Anchor& anchor) {
  constexpr int kTries = 100;
  constexpr uint64_t kGood = 20'000;
  ob_status status = OB_OK;
  for (int i = 0; i < kTries && status == OB_OK; ++i) {
    const uint64_t before = host_nanoseconds();
    status = table.event_record(table.context, anchor.event, queue);
    if (status == OB_OK) status = wait_for_event(table, anchor.event);
    const uint64_t after = host_nanoseconds();
    anchor.time = before + (after - before) / 2;
    if (after - before < kGood) break;
  }
  return status;
}

std::atomic<const Anchor*>& known_anchor(c10::DeviceIndex device) {
  static auto* anchors = new std::array<std::atomic<const Anchor*>, kMaxDevices>{};
  return (*anchors)[device];
}

const Anchor& anchor_of(c10::DeviceIndex device) {
  std::atomic<const Anchor*>& known = known_anchor(device);
  if (const Anchor* anchor = known.load(std::memory_order_acquire)) return *anchor;
  const ob_driver& table = driver();
  Anchor made;
  ob_queue queue = nullptr;
  check_status(create_queue(table, device, 0, &queue), "queue_create");
  ob_status status = create_event(table, device, OB_EVENT_TIMING, &made.event);
  if (status == OB_OK) status = try_anchor(table, queue, made);
  defer_status(OB_ASK(queue_destroy, queue), "queue_destroy");
  if (status != OB_OK) destroy(made.event);
  check_wait(status, "event_synchronize");
  // Threads that meet here: the first one's stays.
  auto* anchor = new Anchor(made);
  const Anchor* expected = nullptr;
  if (known.compare_exchange_strong(expected, anchor)) return *anchor;
  destroy(anchor->event);
  delete anchor;
  return *expected;
}

}  // namespace

uint64_t event_time(c10::DeviceIndex device, ob_event event) {
  uint64_t nanoseconds = 0;
  if (driver().event_time != nullptr) {
    OB_CALL(event_time, event, &nanoseconds);
    return nanoseconds;
  }
  const Anchor& anchor = anchor_of(device);
  double milliseconds = 0;
  OB_CALL(event_elapsed, anchor.event, event, &milliseconds);
  return anchor.time + static_cast<uint64_t>(std::llround(milliseconds * 1e6));
}

void forget_event_times(c10::DeviceIndex device) noexcept {
  const Anchor* anchor = known_anchor(device).exchange(nullptr);
  if (anchor == nullptr) return;
  destroy(anchor->event);
  delete anchor;
}

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
  RecordedWork record(state, ActivityKind::kWait, "event_wait", "Stream Wait Event");
  OB_CALL(event_wait, state.queue, event_);
  state.mark_submitted();
  record.enqueued();
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

uint64_t Event::time() const {
  TORCH_CHECK(timing_ && created() && query(),
              "an event has a time if it was made with enable_timing=True, recorded, and has "
              "happened; synchronize first");
  return event_time(device_, event_);
}

}  // namespace outboard
