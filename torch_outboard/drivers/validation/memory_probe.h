// Whether a device's memory is what its driver says: copies move data, and the host can touch what
// the driver says that it can.
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

// `table` is the driver's own. Allocates two small blocks and a queue, and frees them.
ProbeResult probe_memory(const ob_driver& table, int32_t device,
                         const ob_device_properties& properties);

}  // namespace outboard
