// Use after fork: a child of a process that initialized the driver must not touch it.
#pragma once

#include "runtime/export.h"

namespace outboard {

// Whether this is such a child. An atomic load.
OUTBOARD_API bool in_bad_fork() noexcept;
// Raises RuntimeError with what to do instead, if so. Touches no lock.
OUTBOARD_API void check_fork();
// Installs the handler; called once when the driver is initialized.
void watch_forks() noexcept;

}  // namespace outboard
