// The history of the caching allocator's events with their stacks, for PyTorch's memory viewer.
//
// Off, it costs a load per allocation and per free. The function that gathers stacks comes with the
// settings and is called before any lock of the allocator is taken.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

enum class MemoryAction : uint8_t {
  kAlloc,
  kFreeRequested,  // a tensor freed its block
  kFreeCompleted,  // no stream uses the block any more
  kSegmentAlloc,   // allocated by the driver
  kSegmentFree,
  kSegmentMap,  // memory of a growing segment
  kSegmentUnmap,
  kOutOfMemory,
  kSnapshot,
};
// Their names in PyTorch's viewer, in the order of the enum.
constexpr const char* kMemoryActionNames[] = {
    "alloc",        "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map",    "segment_unmap",  "oom",
    "snapshot"};
constexpr size_t kMemoryActions = std::size(kMemoryActionNames);

using MemoryContext = std::shared_ptr<c10::GatheredContext>;

struct MemoryEvent {
  MemoryAction action;
  c10::DeviceIndex device;
  ob_address address;  // of kOutOfMemory: the free bytes of the device
  size_t size;         // bytes
  ob_queue queue;
  c10::MempoolId_t pool;
  int64_t time_us;  // since 1970
  MemoryContext context;
  std::string metadata;
};

struct MemoryHistorySettings {
  // The stack of the calling thread, or nullptr.
  MemoryContext (*gather)() = nullptr;
  c10::CachingDeviceAllocator::RecordContext contexts =
      c10::CachingDeviceAllocator::RecordContext::NEVER;
  // Whether events are recorded; else only the stacks of blocks in use.
  bool events = true;
  size_t most_events = SIZE_MAX;  // the oldest are dropped
  std::array<bool, kMemoryActions> skipped = {};
};

extern std::atomic<bool> g_memory_history;
inline bool records_memory_history() noexcept {
  return __builtin_expect(g_memory_history.load(std::memory_order_relaxed), 0);
}

OUTBOARD_API void start_memory_history(const MemoryHistorySettings& settings, bool clear);
// Events stay until the next start with `clear`.
OUTBOARD_API void stop_memory_history() noexcept;
OUTBOARD_API std::vector<MemoryEvent> memory_events();
// A string in all later events; empty for none.
OUTBOARD_API void set_memory_metadata(std::string metadata);
OUTBOARD_API std::string memory_metadata();

// The stack for an event, nullptr if none is wanted. Do not call it under a lock of the allocator:
// it may wait for the interpreter lock.
MemoryContext gather_memory_context(MemoryAction action) noexcept;
// Adds an event, with time and metadata. May be called under the lock of a cache.
void note_memory_event(MemoryAction action, c10::DeviceIndex device, ob_address address,
                       size_t size, ob_queue queue, c10::MempoolId_t pool,
                       MemoryContext context = nullptr) noexcept;

}  // namespace outboard
