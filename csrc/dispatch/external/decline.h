// How a kernel of a vendor or a user leaves a call to the next one.
#pragma once

#include <exception>

#include "runtime/export.h"

namespace outboard {

// Thrown by kernels, caught by the router. Whoever calls such a kernel past the router gets it.
class OUTBOARD_API Declined final : public std::exception {
 public:
  const char* what() const noexcept override;
};

// For exceptions of other languages: whether the exception in flight says the same. Called in a
// catch clause, on any thread; set by the Python binding.
using RecognizeDecline = bool (*)();
OUTBOARD_API void set_recognize_decline(RecognizeDecline function) noexcept;

// Whether the exception in flight is one of these; to be called in a catch clause.
bool declined() noexcept;

}  // namespace outboard
