// Times of events, in nanoseconds of the host's CLOCK_MONOTONIC.
#pragma once

#include <c10/core/Device.h>
#include <outboard/driver.h>

#include <cstdint>

#include "runtime/export.h"
#include "runtime/streams/event.h"

namespace outboard {

// The time now.
OUTBOARD_API uint64_t host_nanoseconds() noexcept;

// The time of a driver's event, which has OB_EVENT_TIMING and has happened. If the driver has no
// `event_time`, this is the time elapsed since an anchor, an event of known time; drift between the
// two clocks is not corrected.
OUTBOARD_API uint64_t event_time(c10::DeviceIndex device, ob_event event);
// Drops the anchor of a device: a reset may have reset its clock.
void forget_event_times(c10::DeviceIndex device) noexcept;

// Two events of one device around work on it.
struct TimingEvents {
  // Whether the driver made both.
  bool create(const ob_driver& table, c10::DeviceIndex device) noexcept;

  OwnedEvent begin, end;
};

}  // namespace outboard
