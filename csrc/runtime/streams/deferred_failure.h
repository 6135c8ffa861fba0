// Exceptions of work that others than the driver do on its queues: the next wait for a device
// raises the first of them, as it raises the driver's.
#pragma once

#include <exception>

#include "runtime/export.h"

namespace outboard {

OUTBOARD_API void defer_failure(std::exception_ptr failure) noexcept;
// Of one that was raised already.
OUTBOARD_API void forget_failure(const std::exception_ptr& failure) noexcept;
// Costs one load where there is none.
OUTBOARD_API void raise_deferred_failure();

}  // namespace outboard
