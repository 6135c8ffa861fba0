// Fork and exit of a process that uses a driver.
#pragma once

#include "runtime/export.h"

namespace outboard {

// Whether this process is a forked child of one that had initialized the driver: the child must not
// call it. One atomic load.
OUTBOARD_API bool in_bad_fork() noexcept;
// Raises RuntimeError in such a child, with the alternative. Takes no lock.
OUTBOARD_API void check_fork();

// Installs the handlers of fork and exit. Called once, after the driver was loaded: handlers run in
// reverse order, so those of the driver's libraries come after ours.
void watch_process() noexcept;
// For a device with work that never ends: the driver cannot be finalized, and destructors of its
// libraries may wait for that work. exit() then ends the process before them, with its status.
void exit_without_driver() noexcept;

}  // namespace outboard
