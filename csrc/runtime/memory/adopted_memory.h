// Memory of a device that does not come from its cache: host memory that the device uses as its
// own, and memory that other processes use, too.
//
// The cache cannot keep such memory until the streams that use it are done: its owner here does. It
// keeps the storage that it was adopted from until the stream on which it was adopted, and those
// that were announced since, have done what they had to do when the device's last reference went
// away.
#pragma once

#include <c10/core/Storage.h>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// A device pointer to the memory of a storage, which is not empty and which it keeps alive. Counted
// in the statistics of the stream's device.
c10::DataPtr adopt_memory(const c10::Storage& owner, StreamState& stream);

// The storage under such a pointer; nullptr for other pointers.
const c10::Storage* adopted_storage(const c10::DataPtr& pointer) noexcept;

// Announces that `stream` uses the adopted memory in which `pointer` lies, also where another owner
// stands around it. Does nothing for other memory.
void record_adopted_use(const c10::DataPtr& pointer, StreamState& stream);

// Lets go of what no stream uses any more; with `wait` of all whose pointers are gone.
void release_unused_adopted_memory(bool wait = false);

}  // namespace outboard
