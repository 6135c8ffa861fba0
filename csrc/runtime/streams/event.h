// Events: thin owners of driver events, with the device they belong to.
#pragma once

#include <c10/core/Stream.h>
#include <outboard/driver.h>

#include "runtime/export.h"

namespace outboard {

// Created at the first record, on the device of the recorded stream.
class OUTBOARD_API Event {
 public:
  explicit Event(bool timing = false) noexcept : timing_(timing) {}
  // Never throws: a failure is kept and raised at the next synchronization.
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  bool created() const noexcept { return event_ != nullptr; }
  c10::DeviceIndex device() const noexcept { return device_; }

  // Raises if the event already belongs to another device.
  void record(const c10::Stream& stream);
  void block(const c10::Stream& stream) const;
  bool query() const;
  void synchronize() const;
  // Milliseconds. Raises unless both were recorded with timing and have happened.
  double elapsed_time(const Event& end) const;
  // Nanoseconds of the host's CLOCK_MONOTONIC. Likewise.
  uint64_t time() const;

 private:
  bool timing_;
  c10::DeviceIndex device_ = -1;
  ob_event event_ = nullptr;
};

// The same of a driver's event, which has OB_EVENT_TIMING and has happened. Where the driver cannot
// tell, the time since an event of ours whose time is known; clocks that go apart are not followed.
OUTBOARD_API uint64_t event_time(c10::DeviceIndex device, ob_event event);
// After the device was reset, and its clock perhaps.
void forget_event_times(c10::DeviceIndex device) noexcept;

}  // namespace outboard
