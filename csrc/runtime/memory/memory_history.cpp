#include "runtime/memory/memory_history.h"

#include <c10/util/ApproximateClock.h>

#include <deque>
#include <utility>

#include "runtime/driver/driver_table.h"
#include "runtime/global.h"

namespace outboard {

std::atomic<bool> g_memory_history{false};

namespace {

using c10::CachingDeviceAllocator::RecordContext;

struct History {
  MemoryHistorySettings settings;
  std::deque<MemoryEvent> events;
  std::string metadata;
};

// The setting from which on an event has a stack.
RecordContext needed(MemoryAction action) {
  switch (action) {
    case MemoryAction::kAlloc:
      return RecordContext::STATE;
    case MemoryAction::kSegmentAlloc:
    case MemoryAction::kOutOfMemory:
      return RecordContext::ALLOC;
    default:
      return RecordContext::ALL;
  }
}

}  // namespace

void start_memory_history(const MemoryHistorySettings& settings, bool clear) {
  std::deque<MemoryEvent> forgotten;  // stacks are destroyed without the lock
  const Locked<History> all;
  all->settings = settings;
  if (clear) forgotten.swap(all->events);
  g_memory_history.store(true, std::memory_order_relaxed);
}

void stop_memory_history() noexcept { g_memory_history.store(false, std::memory_order_relaxed); }

std::vector<MemoryEvent> memory_events() {
  const Locked<History> all;
  return {all->events.begin(), all->events.end()};
}

void set_memory_metadata(std::string metadata) {
  Locked<History>()->metadata = std::move(metadata);
}

std::string memory_metadata() { return Locked<History>()->metadata; }

MemoryContext gather_memory_context(MemoryAction action) noexcept {
  if (in_bad_fork()) return nullptr;
  MemoryContext (*gather)() = nullptr;
  {
    const Locked<History> all;
    if (all->settings.contexts >= needed(action)) gather = all->settings.gather;
  }
  if (gather == nullptr) return nullptr;
  try {
    return gather();
  } catch (const std::exception&) {
    return nullptr;  // recording must not make a program fail
  }
}

void note_memory_event(MemoryAction action, c10::DeviceIndex device, ob_address address,
                       size_t size, ob_queue queue, c10::MempoolId_t pool,
                       MemoryContext context) noexcept {
  if (in_bad_fork()) return;
  MemoryEvent oldest;
  const Locked<History> all;
  const MemoryHistorySettings& settings = all->settings;
  if (!settings.events || settings.most_events == 0 ||
      settings.skipped[static_cast<size_t>(action)]) {
    return;
  }
  // With the setting "state", blocks have stacks and events have none.
  if (settings.contexts < RecordContext::ALLOC) context.reset();
  if (all->events.size() >= settings.most_events) {
    oldest = std::move(all->events.front());
    all->events.pop_front();
  }
  all->events.push_back({action, device, address, size, queue, pool, c10::getTime() / 1000,
                         std::move(context), all->metadata});
}

}  // namespace outboard
