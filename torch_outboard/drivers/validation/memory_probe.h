// Probes of a device's memory: do copies move data, and can the host access the memory that the
// driver says it can?
#pragma once

#include <outboard/driver.h>

#include <cstddef>
#include <string>

namespace outboard {

// The most bytes of one copy_carefully.
constexpr size_t kCarefulBytes = 4096;

enum class CarefulCopy {
  kDone,
  kFault,    // the host cannot access one of the bytes
  kUnknown,  // no pipe could be opened
};

// Copies memory that may not be mapped: the system copies the bytes through a pipe, and returns an
// error where a load or store would end the process.
CarefulCopy copy_carefully(void* destination, const void* source, size_t bytes) noexcept;

struct ProbeResult {
  // Not OB_OK: a call failed, `last_error` of the driver has the reason, and nothing is known.
  ob_status status = OB_OK;
  // The fault of the memory, as a sentence without its subject; "" for none.
  std::string problem;
};

// `table` is the driver's own. Allocates two small blocks and a queue, and frees them.
ProbeResult probe_memory(const ob_driver& table, int32_t device,
                         const ob_device_properties& properties);

}  // namespace outboard
