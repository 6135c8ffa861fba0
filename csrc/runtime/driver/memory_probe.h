// Whether a device's memory is what its driver says, tried once before the first use of a device:
// copies move data, and what the host is said to touch it can.
#pragma once

#include <outboard/driver.h>

#include <string>

namespace outboard {

struct ProbeResult {
  // Anything but OB_OK: a call failed, `last_error` of the driver says why, and nothing is known.
  ob_status status = OB_OK;
  // What is wrong with the memory, as a sentence without its subject; "" if nothing is.
  std::string problem;
};

// `table` is the driver's own. Takes two small blocks and a queue and gives them back.
ProbeResult probe_memory(const ob_driver& table, int32_t device);

}  // namespace outboard
