// What the caching allocator did, and where it was asked to: for PyTorch's viewer of memory.
//
// Off, it costs a load for each allocation and each free. Stacks are gathered by a function of
// whoever turns it on, before any lock of the allocator is taken.
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
  kFreeRequested,  // a tensor gave its block back
  kFreeCompleted,  // other streams are done with it, too
  kSegmentAlloc,   // taken from the driver
  kSegmentFree,
  kSegmentMap,  // memory came behind addresses of a segment that grows
  kSegmentUnmap,
  kOutOfMemory,
  kSnapshot,
};
// As PyTorch's viewer calls them, in the order of the enum.
constexpr const char* kMemoryActionNames[] = {
    "alloc",        "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map",    "segment_unmap",  "oom",
    "snapshot"};
constexpr size_t kMemoryActions = std::size(kMemoryActionNames);

using MemoryContext = std::shared_ptr<c10::GatheredContext>;

struct MemoryEvent {
  MemoryAction action;
  c10::DeviceIndex device;
  ob_address address;  // of kOutOfMemory: the bytes that the device has free
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
  // Whether events are kept; otherwise only blocks in use know where they come from.
  bool events = true;
  size_t most_events = SIZE_MAX;  // the oldest go first
  std::array<bool, kMemoryActions> skipped = {};
};

extern std::atomic<bool> g_memory_history;
inline bool keeps_memory_history() noexcept {
  return __builtin_expect(g_memory_history.load(std::memory_order_relaxed), 0);
}

OUTBOARD_API void start_memory_history(const MemoryHistorySettings& settings, bool clear);
// Events stay until the next start with `clear`.
OUTBOARD_API void stop_memory_history() noexcept;
OUTBOARD_API std::vector<MemoryEvent> memory_events();
// Goes with all later events; empty for none.
OUTBOARD_API void set_memory_metadata(std::string metadata);
OUTBOARD_API std::string memory_metadata();

// The stack for an event of this kind, nullptr if none is wanted. Takes no lock of the allocator,
// and must not be called under one: it may wait for the interpreter's lock.
MemoryContext gather_memory_context(MemoryAction action) noexcept;
// Fills in time and metadata. May be called under the lock of a cache.
void note_memory_event(MemoryAction action, c10::DeviceIndex device, ob_address address,
                       size_t size, ob_queue queue, c10::MempoolId_t pool,
                       MemoryContext context = nullptr) noexcept;

}  // namespace outboard
