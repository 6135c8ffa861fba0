// Events: owners of driver events. `Event` serves users and PyTorch, `StreamMarker` allocators.
#pragma once

#include <c10/core/Stream.h>
#include <outboard/driver.h>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// Destroys a driver's event where that is still possible; nullptr is ignored. An error is deferred.
OUTBOARD_API void destroy_event(ob_event event) noexcept;

// Its driver event is created at the first record, on the device of the recorded stream.
class OUTBOARD_API Event {
 public:
  explicit Event(bool timing = false) noexcept : timing_(timing) {}
  ~Event() { destroy_event(event_); }
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

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
  ob_event event_ = nullptr;
};

// The end of all work that `stream` has so far. No function throws: errors are deferred. If the
// driver makes no event, the marker has passed when the whole stream is idle.
class StreamMarker {
 public:
  explicit StreamMarker(StreamState& stream) noexcept;
  ~StreamMarker() { destroy_event(event_); }
  StreamMarker(StreamMarker&& other) noexcept;
  StreamMarker& operator=(StreamMarker&& other) noexcept;
  StreamMarker(const StreamMarker&) = delete;
  StreamMarker& operator=(const StreamMarker&) = delete;

  // Does not wait.
  bool has_passed() const noexcept;
  // Waits; whether the marker has passed then: false in a forked child, at exit, and if a limited
  // wait was given up (wait.h).
  bool wait() const noexcept;

 private:
  StreamState* stream_;
  ob_event event_ = nullptr;
};

}  // namespace outboard
