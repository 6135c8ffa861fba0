// Copies memory that may not be mapped: the system copies the bytes through a pipe, and returns an
// error where a load or store would end the process.
#pragma once

#include <cstddef>

namespace outboard {

// The most bytes of one call.
constexpr size_t kCarefulBytes = 4096;

enum class CarefulCopy {
  kDone,
  kFault,    // the host cannot touch one of them
  kUnknown,  // no pipe could be opened
};

CarefulCopy copy_carefully(void* destination, const void* source, size_t bytes) noexcept;

}  // namespace outboard
