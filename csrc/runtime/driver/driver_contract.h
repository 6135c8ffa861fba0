// The table that a driver gives, checked against the contract and completed with defaults.
#pragma once

#include <outboard/driver.h>

namespace outboard {

// Copies the fields that the driver's table covers to `ours`, which must outlive every call through
// it, and fills its empty optional fields: those of transfers, queries and host functions. Empty
// fields of the groups code, library calls and graphs stay NULL. `device_synchronize` and
// `event_time` stay NULL, too: stream.cpp knows the queues, event_time.cpp the devices of events.
// Raises RuntimeError for a table that breaks the contract.
void adopt_table(const ob_driver& theirs, ob_driver& ours);

}  // namespace outboard
