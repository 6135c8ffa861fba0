// When kernels ran, for profilers: each launch while this is on, with the kernel's name.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <outboard/driver.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// Nanoseconds of the host's CLOCK_MONOTONIC. Where launches of the driver record no events, `start`
// is when the stream was done with earlier work, which is before the kernel began.
struct LaunchTime {
  std::string kernel;
  c10::DeviceIndex device;
  c10::StreamId stream;
  uint64_t start;
  uint64_t end;
};

// From now on launches are timed, or not any more. Those of graphs are not.
OUTBOARD_API void time_launches(bool on);
// Waits for the launches that were timed since the last call, and gives their times in the order of
// the calls. A launch whose events the driver did not make or cannot tell is left out.
OUTBOARD_API std::vector<LaunchTime> take_launch_times();

extern OUTBOARD_API std::atomic<bool> g_times_launches;
inline bool times_launches() noexcept { return g_times_launches.load(std::memory_order_relaxed); }

// Around one launch. Never throws for want of a time: a profiler must not make a program fail.
class TimedLaunch {
 public:
  // Puts the events into the description.
  TimedLaunch(StreamState& stream, const std::string& kernel, ob_launch& launch) noexcept;
  ~TimedLaunch();
  TimedLaunch(const TimedLaunch&) = delete;
  TimedLaunch& operator=(const TimedLaunch&) = delete;

  void launched() noexcept;

 private:
  StreamState& stream_;
  const std::string& kernel_;
  bool by_launch_ = false;
  ob_event start_ = nullptr;
  ob_event end_ = nullptr;
};

}  // namespace outboard
