// Memory that host and device share: adopted memory, and allocations of CPU kernels.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// ---- Adopted memory: memory of a device that its cache did not allocate. It is host memory that
// the device uses, or memory shared with other processes.
//
// A device pointer to adopted memory keeps the storage that owns it. When the pointer is freed, the
// storage is kept until the work is done that was then enqueued on the stream of the adoption and
// on the streams announced since.

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

// ---- Allocations of CPU kernels: from the device's caching allocator.
//
// A CPU kernel allocates results and temporaries through PyTorch's CPU allocator: fresh pages for
// every large one, and memory that the device's statistics do not count. On a device that shares
// memory with the host, the CPU allocator is wrapped at first use: while a CpuKernelMemory scope is
// alive in a thread, CPU allocations of that thread come from the device's cache. All others go to
// the wrapped allocator, at the cost of one thread-local load.

class OUTBOARD_API CpuKernelMemory {
 public:
  // Does nothing unless the stream's device shares memory with the host. Scopes nest.
  explicit CpuKernelMemory(StreamState& state) noexcept;
  ~CpuKernelMemory();
  C10_DISABLE_COPY_AND_ASSIGN(CpuKernelMemory);

 private:
  StreamState* previous_;
};

// Whether a CPU DataPtr holds memory that a scope allocated from the device's cache. Its deleter
// serves a device DataPtr, too.
OUTBOARD_API bool is_cpu_kernel_memory(const c10::DataPtr& pointer) noexcept;

}  // namespace outboard
