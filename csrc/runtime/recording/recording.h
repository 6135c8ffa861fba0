// Records calls of the driver while a profiler or tracer is active.
//
// The work of all threads goes into one log. Each recording reads a part of it, from where it
// began; what no recording can still read is dropped. Events tell when work ran. Those that have
// happened are read and given back now and then, so that a long recording holds few.
#pragma once

#include <outboard/driver.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/export.h"
#include "runtime/recording/activity.h"

namespace outboard {

extern OUTBOARD_API std::atomic<bool> g_recording;
// Whether anybody wants to know. A load.
inline bool recording() noexcept { return g_recording.load(std::memory_order_relaxed); }

// Reads what happens from start() to stop(). Used by one thread at a time.
class OUTBOARD_API Recording {
 public:
  Recording() = default;
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void start();
  void stop() noexcept;
  // Waits for the work of what was recorded since start() or the last call, and gives it all in the
  // order in which the calls returned. The interpreter's lock must not be held. Where the driver
  // cannot be asked any more, times are left out.
  std::vector<Activity> take();

 private:
  friend struct ActivityLog;

  bool active_ = false;  // is in the log's list of readers
  bool stopped_ = true;
  uint64_t next_ = 0;  // places in the log
  uint64_t end_ = 0;
};

// Nanoseconds of CLOCK_MONOTONIC.
OUTBOARD_API uint64_t host_nanoseconds() noexcept;
// The system's number of the calling thread.
int32_t thread_number() noexcept;

// Two events of one device around work on it. Given back to the driver with the object.
class TimingEvents {
 public:
  TimingEvents() = default;
  ~TimingEvents();
  TimingEvents(TimingEvents&& other) noexcept;
  TimingEvents& operator=(TimingEvents&& other) noexcept;
  TimingEvents(const TimingEvents&) = delete;
  TimingEvents& operator=(const TimingEvents&) = delete;

  // Whether the driver made both.
  bool create(const ob_driver& table, c10::DeviceIndex device) noexcept;
  explicit operator bool() const noexcept { return end_ != nullptr; }
  ob_event begin() const noexcept { return begin_; }
  ob_event end() const noexcept { return end_; }

 private:
  ob_event begin_ = nullptr;
  ob_event end_ = nullptr;
};

// Adds to the log, unless recording has ended. Calls no function of the driver.
void log_activity(Activity activity, TimingEvents events) noexcept;
// Now and then reads events that have happened. Not for threads whose last driver call failed:
// what it said of that would be gone.
void read_finished_work() noexcept;

}  // namespace outboard
