#include "runtime/memory/caching/segment_registry.h"

#include <pthread.h>

#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>

namespace outboard {
namespace {

struct Registry {
  std::shared_mutex mutex;
  std::map<ob_address, SegmentRange> ranges;
};

// Never destroyed: deleters run until the end of the process.
Registry& registry() {
  static Registry* instance = [] {
    // The child gets a new mutex: only the thread that locked one may unlock it, and the child's
    // thread is another one to the system.
    pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                   [] { new (&registry().mutex) std::shared_mutex; });
    return new Registry();
  }();
  return *instance;
}

}  // namespace

void register_segment(Segment* segment, c10::DeviceIndex device) {
  Registry& all = registry();
  std::unique_lock<std::shared_mutex> lock(all.mutex);
  all.ranges[segment->address] = {segment->address, segment->size, device, segment};
}

void unregister_segment(const Segment* segment) {
  Registry& all = registry();
  std::unique_lock<std::shared_mutex> lock(all.mutex);
  all.ranges.erase(segment->address);
}

std::optional<SegmentRange> find_segment(ob_address address) {
  Registry& all = registry();
  std::shared_lock<std::shared_mutex> lock(all.mutex);
  auto after = all.ranges.upper_bound(address);
  if (after == all.ranges.begin()) return std::nullopt;
  const SegmentRange& range = std::prev(after)->second;
  if (address - range.address >= range.size) return std::nullopt;
  return range;
}

}  // namespace outboard
