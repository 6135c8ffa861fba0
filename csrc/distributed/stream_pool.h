// Pool of streams of destroyed groups, for new ones: streams are never destroyed.
#pragma once

#include "runtime/streams/stream.h"

namespace outboard::distributed {

// A stream of the highest priority, exclusive to the caller.
c10::Stream take_stream(c10::DeviceIndex device);
// Returns it to the pool, unless it still has work, which would delay the next user.
void give_back_stream(const c10::Stream& stream) noexcept;

}  // namespace outboard::distributed
