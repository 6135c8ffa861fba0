// Errors of the driver: its messages, statuses as exceptions, and errors deferred to the next
// synchronization because they occurred where nothing can be thrown.
#pragma once

#include <outboard/driver.h>

#include <cstddef>
#include <exception>
#include <string>

#include "runtime/export.h"

namespace outboard {

const char* status_name(ob_status status) noexcept;

// Replaces each byte that is not part of a UTF-8 character by '?'; whether there was one. Python
// takes valid UTF-8 only, and hardware and compilers send other bytes.
bool replace_invalid_utf8(char* text, size_t bytes) noexcept;

// The driver's message about this thread's last failed call, as valid UTF-8 and not empty.
OUTBOARD_API std::string driver_message(const ob_driver& table);

// Raises for anything but OB_OK: torch.OutOfMemoryError, NotImplementedError, ValueError or
// RuntimeError (torch.AcceleratorError for a lost device), naming driver, call and cause.
[[noreturn]] OUTBOARD_API void throw_status(ob_status status, const char* call);
inline void check_status(ob_status status, const char* call) {
  if (__builtin_expect(status != OB_OK, 0)) throw_status(status, call);
}

// For code that cannot throw: defers an error to the next synchronization. The first one is stored,
// later ones are dropped. OB_OK and OB_NOT_READY are no errors.
OUTBOARD_API void defer_status(ob_status status, const char* call) noexcept;
OUTBOARD_API void defer_failure(std::exception_ptr failure) noexcept;
// Drops a deferred error that was raised elsewhere.
OUTBOARD_API void forget_failure(const std::exception_ptr& failure) noexcept;
// Removes and returns the deferred error; nullptr, at the cost of one load, if there is none.
OUTBOARD_API std::exception_ptr take_deferred_failure() noexcept;
// Raises the deferred error, else failed device-side asserts. For callers that have waited for a
// device.
OUTBOARD_API void raise_deferred();

}  // namespace outboard
