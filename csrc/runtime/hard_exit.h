// Ending a process whose device works on something that never ends: its driver cannot be taken
// down, and destructors of the driver's libraries may wait for it.
#pragma once

namespace outboard {

// Called when the driver has been loaded, so that destructors of its libraries come behind it.
void prepare_hard_exit() noexcept;

// From now on, exit() ends the process before those, with the exit status that it was given.
void exit_without_driver() noexcept;

}  // namespace outboard
