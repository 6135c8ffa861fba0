// Events and their times. `OwnedEvent` owns one of a driver, `Event` serves users and PyTorch,
// `StreamMarker` allocators.
#pragma once

#include <c10/core/Stream.h>
#include <outboard/driver.h>

#include <cstdint>
#include <memory>
#include <type_traits>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

struct OUTBOARD_API EventDestroyer {
  // Does nothing where the driver must not be called. An error is deferred.
  void operator()(ob_event event) const noexcept;
};

using OwnedEvent = std::unique_ptr<std::remove_pointer_t<ob_event>, EventDestroyer>;

// Returns the driver's status; `flags`: OB_EVENT_*.
ob_status create_event(const ob_driver& table, c10::DeviceIndex device, uint32_t flags,
                       OwnedEvent& event);

// Its driver event is created at the first record, on the device of the recorded stream.
class OUTBOARD_API Event {
 public:
  explicit Event(bool timing = false) noexcept : timing_(timing) {}
  bool created() const noexcept { return event_ != nullptr; }
  c10::DeviceIndex device() const noexcept { return device_; }

  // Raises RuntimeError if the event belongs to another device.
  void record(const c10::Stream& stream);
  void block(const c10::Stream& stream) const;
  bool query() const;
  void synchronize() const;
  // Milliseconds. Raises unless both were recorded with timing and have happened.
  double elapsed_time(const Event& end) const;
  // Nanoseconds of the host's CLOCK_MONOTONIC. Raises likewise.
  uint64_t time() const;

 private:
  bool timing_;
  c10::DeviceIndex device_ = -1;
  OwnedEvent event_;
};

// The end of all work that `stream` has so far. No function throws: errors are deferred. If the
// driver makes no event, the marker has passed when the whole stream is idle.
class StreamMarker {
 public:
  explicit StreamMarker(StreamState& stream) noexcept;

  // Does not wait.
  bool has_passed() const noexcept;
  // Waits; whether the marker has passed then: false in a forked child, at exit, and if a limited
  // wait was given up (wait.h).
  bool wait() const noexcept;

 private:
  StreamState* stream_;
  OwnedEvent event_;
};

// ---- Times, in nanoseconds of the host's CLOCK_MONOTONIC

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
