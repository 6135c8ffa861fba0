#include "validation/careful_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace outboard {

CarefulCopy copy_carefully(void* destination, const void* source, size_t bytes) noexcept {
  int ends[2];
  // A pipe takes that many bytes (PIPE_BUF) at once, so neither call waits for the other.
  if (bytes > kCarefulBytes || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return CarefulCopy::kUnknown;
  }
  const ssize_t wanted = static_cast<ssize_t>(bytes);
  ssize_t copied = write(ends[1], source, bytes);
  if (copied == wanted) copied = read(ends[0], destination, bytes);
  // A copy that stops half-way has met the end of mapped memory.
  const bool fault = copied < 0 ? errno == EFAULT : copied < wanted;
  close(ends[0]);
  close(ends[1]);
  if (copied == wanted) return CarefulCopy::kDone;
  return fault ? CarefulCopy::kFault : CarefulCopy::kUnknown;
}

}  // namespace outboard
