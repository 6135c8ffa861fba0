// What a thread has spent in waits for the driver and in compiling programs since it started. A
// reader takes the difference of two values. Each thread has its own: no synchronization.
#pragma once

#include <cstdint>

#include "runtime/export.h"

namespace outboard {

struct ThreadCosts {
  uint64_t waits = 0;  // driver calls that may block, outermost ones
  uint64_t waiting_nanoseconds = 0;
  uint64_t programs = 0;  // compiled from source
  uint64_t compiling_nanoseconds = 0;
};

// Of the calling thread.
OUTBOARD_API ThreadCosts& thread_costs() noexcept;

}  // namespace outboard
