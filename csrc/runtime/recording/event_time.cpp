#include "runtime/recording/event_time.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/streams/event.h"
#include "runtime/streams/wait.h"

namespace outboard {
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
  static auto* anchors = new std::array<std::atomic<const Anchor*>, kMaxDevices>{};
  return (*anchors)[device];
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
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
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
