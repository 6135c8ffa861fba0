// Whether the compiler of a device works at all: a driver can have one that refuses everything,
// because it does not know the processor, say.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>

#include "runtime/export.h"

namespace outboard {

// Builds and runs a kernel that does nothing, unless that was done before, here or on a device with
// the same compiler: milliseconds where the kernel is on disk. Why that failed, or nothing. To be
// called without a lock, for a device that runs code.
OUTBOARD_API std::optional<std::string> compiler_failure(c10::DeviceIndex device);

// Whether compiler_failure was asked for and found one.
OUTBOARD_API bool compiler_is_known_to_fail(c10::DeviceIndex device) noexcept;

}  // namespace outboard
