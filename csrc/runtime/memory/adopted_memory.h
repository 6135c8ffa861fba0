// Adopted memory: memory of a device that its cache did not allocate. It is host memory that the
// device uses, or memory shared with other processes.
//
// A device pointer to adopted memory keeps the storage that owns it. When the pointer is freed, the
// storage is kept until the work is done that was then enqueued on the stream of the adoption and
// on the streams announced since.
#pragma once

#include <c10/core/Storage.h>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// A device pointer to the memory of `owner`, which is not empty. Counted in the statistics of the
// stream's device.
c10::DataPtr adopt_memory(const c10::Storage& owner, StreamState& stream);

// The storage behind a device pointer to adopted memory; nullptr for other pointers.
const c10::Storage* adopted_storage(const c10::DataPtr& pointer) noexcept;

// Announces that `stream` uses the adopted memory that contains `pointer`, whose owner may be
// another one that wraps the device pointer. Does nothing for other memory.
void record_adopted_use(const c10::DataPtr& pointer, StreamState& stream);

// Releases storages that no stream uses any more; with `wait`, all whose pointers are freed.
void release_unused_adopted_memory(bool wait = false);

}  // namespace outboard
