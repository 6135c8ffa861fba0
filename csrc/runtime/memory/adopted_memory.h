// Host memory that a device uses as its own.
//
// Such memory does not come from the device's cache, so the cache cannot keep it until the streams
// that use it are done: its owner here does. It keeps the CPU storage until the stream on which it
// was adopted, and those that were announced since, have done what they had to do when the device's
// last reference went away.
#pragma once

#include <c10/core/Storage.h>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// A device pointer to the memory of a CPU storage, which is not empty and which it keeps alive.
// Counted in the statistics of the stream's device.
c10::DataPtr adopt_host_memory(const c10::Storage& host, StreamState& stream);

// The CPU storage under such a pointer; nullptr for other pointers.
const c10::Storage* adopted_storage(const c10::DataPtr& pointer) noexcept;

// Announces that `stream` uses the adopted memory in which `pointer` lies, also where another owner
// stands around it. Does nothing for other memory.
void record_adopted_use(const c10::DataPtr& pointer, StreamState& stream);

// Lets go of what no stream uses any more.
void release_unused_adopted_memory();

}  // namespace outboard
