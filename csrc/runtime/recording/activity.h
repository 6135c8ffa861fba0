// One thing that the driver was asked to do, as profilers show it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstdint>
#include <string>

#include "runtime/recording/correlation.h"

namespace outboard {

enum class ActivityKind : uint8_t {
  kHostCall,  // the host waits or prepares; nothing was given to a queue
  kKernel,
  kLibraryCall,
  kCopy,
  kFill,
  kGraph,  // a replay
  kWait,   // of a queue for an event of another one
};

// Times are nanoseconds of the host's CLOCK_MONOTONIC.
struct Activity {
  ActivityKind kind = ActivityKind::kHostCall;
  // The driver's function. Static.
  const char* call = "";
  int32_t thread = 0;  // the system's number
  uint64_t call_begin = 0;
  uint64_t call_end = 0;
  Correlation correlation;

  // The rest is about the work on a queue.
  std::string name;
  c10::DeviceIndex device = -1;
  c10::StreamId stream = 0;
  // Of kernels on drivers that record events of launches these are their own; else `begin` is when
  // the queue was done with earlier work. Both are 0 where they are unknown: of captured work, and
  // where the driver failed.
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bytes = 0;  // of copies and fills
  // Of kernels: work items in all and in a work group.
  std::array<uint64_t, 3> global = {};
  std::array<uint64_t, 3> local = {};
  uint64_t local_memory = 0;  // bytes of a work group

  bool has_times() const noexcept { return end != 0; }
};

}  // namespace outboard
