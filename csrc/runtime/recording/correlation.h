// What a thread is busy with, by the numbers that a profiler gave: it goes with everything that the
// thread asks of the driver meanwhile.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/export.h"

namespace outboard {

// A range of the user's, and those around it.
struct UserRange {
  uint64_t id;
  std::shared_ptr<const UserRange> outer;
};

struct Correlation {
  uint64_t operation = 0;  // the innermost one; 0: none
  std::shared_ptr<const UserRange> ranges;
};

// The calling thread's. Only numbers of the profile that is under way count (begin_correlation).
Correlation current_correlation();

// Forgets what all threads said before.
OUTBOARD_API void begin_correlation() noexcept;

// Of the calling thread. A pop without a push does nothing: a profile may begin in an operation.
OUTBOARD_API void push_operation(uint64_t id);
OUTBOARD_API void pop_operation() noexcept;
OUTBOARD_API void push_user_range(uint64_t id);
OUTBOARD_API void pop_user_range() noexcept;

}  // namespace outboard
