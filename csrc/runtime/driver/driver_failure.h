// Failures of the driver: its messages, statuses as exceptions, and failures deferred to the next
// synchronization.
#pragma once

#include <outboard/driver.h>

#include <exception>
#include <string>

#include "runtime/export.h"

namespace outboard {

const char* status_name(ob_status status) noexcept;

// The driver's message about this thread's last failed call, as valid UTF-8 and not empty.
OUTBOARD_API std::string driver_message(const ob_driver& table);

// Raises for anything but OB_OK: torch.OutOfMemoryError, NotImplementedError, ValueError or
// RuntimeError (torch.AcceleratorError for a lost device), naming driver, call and cause.
[[noreturn]] OUTBOARD_API void throw_status(ob_status status, const char* call);
inline void check_status(ob_status status, const char* call) {
  if (__builtin_expect(status != OB_OK, 0)) throw_status(status, call);
}

// For code that cannot throw: keeps the first failure for the next synchronization, which raises it
// (`raise_deferred` in kernel_faults.h). OB_NOT_READY is no failure.
OUTBOARD_API void defer_status(ob_status status, const char* call) noexcept;
OUTBOARD_API void defer_failure(std::exception_ptr failure) noexcept;
// Drops a failure that was raised elsewhere.
OUTBOARD_API void forget_failure(const std::exception_ptr& failure) noexcept;
// Removes and returns the deferred failure; nullptr, at the cost of one load, if there is none.
OUTBOARD_API std::exception_ptr take_deferred_failure() noexcept;

}  // namespace outboard
