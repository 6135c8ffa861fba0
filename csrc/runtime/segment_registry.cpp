#include "runtime/segment_registry.h"

#include <pthread.h>

#include <map>
#include <mutex>
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
    pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                   [] { registry().mutex.unlock(); });
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
