// Streams of groups that are gone, for those that come: streams never go.
#pragma once

#include "runtime/streams/stream.h"

namespace outboard::distributed {

// One of the highest priority, for the caller alone.
c10::Stream take_stream(c10::DeviceIndex device);
// Keeps it for the next, unless there is still work on it, which would hold up that one.
void give_back_stream(const c10::Stream& stream) noexcept;

}  // namespace outboard::distributed
