// Copies and fills, done by the threads of queues.
#include "riscv.h"

namespace riscv {
namespace {

ob_status enqueue_copy(ob_queue queue, void* destination, const void* source, uint64_t bytes) {
  drivers::enqueue(queue, {.run = [=] { std::memmove(destination, source, bytes); }});
  return OB_OK;
}

ob_status copy_host_to_device(ob_queue queue, ob_address destination, const void* source,
                              uint64_t bytes) {
  check_host_range(source, bytes);
  return enqueue_copy(queue, locate(device_at(drivers::device_of(queue)), destination, bytes),
                      source, bytes);
}

ob_status copy_device_to_host(ob_queue queue, void* destination, ob_address source,
                              uint64_t bytes) {
  check_host_range(destination, bytes);
  return enqueue_copy(queue, destination,
                      locate(device_at(drivers::device_of(queue)), source, bytes), bytes);
}

ob_status copy_device_to_device(ob_queue queue, ob_address destination, ob_address source,
                                uint64_t bytes) {
  char* to = locate(device_at(drivers::device_of(queue)), destination, bytes);
  return enqueue_copy(queue, to, locate(device_at(drivers::device_of(queue)), source, bytes),
                      bytes);
}

ob_status fill(ob_queue queue, ob_address destination, const void* pattern, uint32_t pattern_bytes,
               uint64_t bytes) {
  if (pattern_bytes == 0 || pattern_bytes > 16 || (pattern_bytes & (pattern_bytes - 1)) != 0) {
    fail(OB_INVALID_ARGUMENT, "A pattern has 1, 2, 4, 8 or 16 bytes, not %u.", pattern_bytes);
  }
  if (bytes == 0 || bytes % pattern_bytes != 0) {
    fail(OB_INVALID_ARGUMENT, "%" PRIu64 " bytes are not a multiple of a pattern of %u bytes.",
         bytes, pattern_bytes);
  }
  char* to = locate(device_at(drivers::device_of(queue)), destination, bytes);
  const std::string unit(static_cast<const char*>(pattern), pattern_bytes);
  const auto run = [=] {
    std::memcpy(to, unit.data(), unit.size());
    // What is there already, twice as much each time.
    for (uint64_t done = unit.size(); done < bytes; done *= 2) {
      std::memcpy(to + done, to, std::min(done, bytes - done));
    }
  };
  drivers::enqueue(queue, {.run = run});
  return OB_OK;
}

}  // namespace

void set_transfer_functions(ob_driver& table) {
  OB_SET(table, copy_host_to_device);
  OB_SET(table, copy_device_to_host);
  OB_SET(table, copy_device_to_device);
  OB_SET(table, fill);
}

}  // namespace riscv
