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

 private:
  bool timing_;
  c10::DeviceIndex device_ = -1;
  ob_event event_ = nullptr;
};

}  // namespace outboard
