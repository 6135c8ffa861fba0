// Lets CPU kernels allocate from the device's caching allocator.
//
// A CPU kernel allocates results and temporaries through PyTorch's CPU allocator: fresh pages for
// every large one, and memory that the device's statistics do not count. On a device that shares
// memory with the host, the CPU allocator is wrapped at first use: while a CpuKernelMemory scope is
// alive in a thread, CPU allocations of that thread come from the device's cache. All others go to
// the wrapped allocator, at the cost of one thread-local load.
#pragma once

#include <c10/core/Allocator.h>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

class OUTBOARD_API CpuKernelMemory {
 public:
  // Does nothing unless the stream's device shares memory with the host. Scopes nest.
  explicit CpuKernelMemory(StreamState& state) noexcept;
  ~CpuKernelMemory();
  CpuKernelMemory(const CpuKernelMemory&) = delete;
  CpuKernelMemory& operator=(const CpuKernelMemory&) = delete;

 private:
  StreamState* previous_;
};

// Whether a CPU DataPtr holds memory of a scope or of the wrapped allocator's raw interface: its
// deleter serves a device DataPtr, too.
OUTBOARD_API bool is_cpu_kernel_memory(const c10::DataPtr& pointer) noexcept;

}  // namespace outboard
