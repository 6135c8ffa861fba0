// Which segment an address lies in, for all devices together.
#pragma once

#include <optional>

#include "runtime/memory/caching/block_pool.h"

namespace outboard {

struct SegmentRange {
  ob_address address;
  size_t size;
  c10::DeviceIndex device;
  // Alive as long as one of its blocks is in use.
  Segment* segment;
};

void register_segment(Segment* segment, c10::DeviceIndex device);
void unregister_segment(const Segment* segment);
// Also right in a forked child: forks wait for the registry, so its state is a good one there.
std::optional<SegmentRange> find_segment(ob_address address);

}  // namespace outboard
