#ifndef OUTBOARD_DRIVERS_COMMON_START_PROCESS_H
#define OUTBOARD_DRIVERS_COMMON_START_PROCESS_H

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

namespace drivers {

// Starts a command, which PATH is searched for, in a process group of its own, with default signal
// handling. `streams` become its first three descriptors, -1 for /dev/null, and it has no others.
// `changes` are variables of its environment, such as "LC_ALL=C". Returns 0 or an errno value.
int start_process(std::vector<std::string> command, std::vector<std::string> changes,
                  const std::array<int, 3>& streams, pid_t& process);

}  // namespace drivers

#endif  // OUTBOARD_DRIVERS_COMMON_START_PROCESS_H
