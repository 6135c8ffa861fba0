// Copying memory of which either side may not be there, without a fault: the system copies the
// bytes through a pipe, and answers with an error where the process would have been ended.
#pragma once

#include <cstddef>

namespace outboard {

// At most this many bytes in one call.
constexpr size_t kCarefulBytes = 4096;

enum class CarefulCopy {
  kDone,
  kFault,    // the host cannot touch one of them
  kUnknown,  // no pipe was to be had
};

CarefulCopy copy_carefully(void* destination, const void* source, size_t bytes) noexcept;

}  // namespace outboard
