// Copies and fills, done by the thread of the queue.
#include <cstring>
#include <string>

#include "riscv.h"

namespace riscv {
namespace {

void enqueue_copy(ob_queue queue, void* destination, const void* source, uint64_t bytes) {
  const auto copy = [=] { std::memmove(destination, source, bytes); };
  enqueue(queue, {.run = copy, .recording = {}});
}

}  // namespace

ob_status copy_host_to_device(ob_queue queue, ob_address destination, const void* source,
                              uint64_t bytes) {
  check_host_range(source, bytes);
  enqueue_copy(queue, locate(queue->device, destination, bytes), source, bytes);
  return OB_OK;
}

ob_status copy_device_to_host(ob_queue queue, void* destination, ob_address source,
                              uint64_t bytes) {
  check_host_range(destination, bytes);
  enqueue_copy(queue, destination, locate(queue->device, source, bytes), bytes);
  return OB_OK;
}

ob_status copy_device_to_device(ob_queue queue, ob_address destination, ob_address source,
                                uint64_t bytes) {
  char* to = locate(queue->device, destination, bytes);
  enqueue_copy(queue, to, locate(queue->device, source, bytes), bytes);
  return OB_OK;
}

ob_status fill(ob_queue queue, ob_address destination, const void* pattern, uint32_t pattern_bytes,
               uint64_t bytes) {
  if (pattern_bytes == 0 || pattern_bytes > 16 || (pattern_bytes & (pattern_bytes - 1)) != 0) {
    fail(OB_INVALID_ARGUMENT, "A pattern has 1, 2, 4, 8 or 16 bytes, not %u.", pattern_bytes);
  }
  if (bytes == 0 || bytes % pattern_bytes != 0) {
    fail(OB_INVALID_ARGUMENT, "%llu bytes are not a multiple of a pattern of %u bytes.",
         static_cast<unsigned long long>(bytes), pattern_bytes);
  }
  char* to = locate(queue->device, destination, bytes);
  const std::string unit(static_cast<const char*>(pattern), pattern_bytes);
  enqueue(queue, {.run =
                      [=] {
                        std::memcpy(to, unit.data(), unit.size());
                        // What is there already, twice as much each time.
                        for (uint64_t done = unit.size(); done < bytes;) {
                          const uint64_t next = std::min(done, bytes - done);
                          std::memcpy(to + done, to, next);
                          done += next;
                        }
                      },
                  .recording = {}});
  return OB_OK;
}

}  // namespace riscv
