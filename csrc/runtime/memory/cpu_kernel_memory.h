// Lets host kernels allocate from the device's caching allocator.
//
// A CPU kernel allocates its results and temporaries through PyTorch's CPU allocator: fresh pages
// each time for anything large, and memory that the device's statistics never see. On a device
// that shares memory with the host, the CPU allocator is wrapped at first use: while a
// CpuKernelMemory scope is alive in a thread, that thread's CPU allocations come from the device's
// cache; all others go where they went before, at the price of one thread-local load.
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

// Whether `pointer` (from a CPU DataPtr) is memory of the device's cache handed out by a scope: the
// CPU DataPtr can become a device DataPtr with its deleter unchanged.
OUTBOARD_API bool is_cpu_kernel_memory(const c10::DataPtr& pointer) noexcept;

}  // namespace outboard
