#include "runtime/memory/caching/allocation_sizes.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>

namespace outboard {
namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::kMinLargeAlloc;
using c10::CachingAllocator::kRoundLarge;
using c10::CachingAllocator::kSmallBuffer;
using c10::CachingAllocator::kSmallSize;

static_assert(kBlockGranularity == c10::CachingAllocator::kMinBlockSize);

// Not every version of PyTorch has the setting; its default is the size of those that do not.
template <typename Config>
size_t large_segment_size() {
  if constexpr (requires { Config::large_segment_size(); }) {
    return Config::large_segment_size();
  } else {
    return 20 << 20;
  }
}

}  // namespace

size_t block_size(size_t bytes) {
  if (bytes <= kBlockGranularity) return kBlockGranularity;
  const size_t divisions = AcceleratorAllocatorConfig::roundup_power2_divisions(bytes);
  if (divisions > 1 && bytes > kBlockGranularity * divisions) {
    const size_t power = size_t{1} << (63 - __builtin_clzll(bytes));
    bytes = round_up(bytes, power / divisions);
  }
  return round_up(bytes, kBlockGranularity);
}

bool is_small(size_t block_bytes) { return block_bytes <= kSmallSize; }

size_t segment_size(size_t block_bytes, size_t max_allocation) {
  size_t bytes = round_up(block_bytes, kRoundLarge);
  if (is_small(block_bytes)) {
    bytes = kSmallBuffer;
  } else if (block_bytes < kMinLargeAlloc) {
    bytes = std::max(bytes, large_segment_size<AcceleratorAllocatorConfig>());
  }
  return bytes > max_allocation ? block_bytes : bytes;
}

bool may_use(const Block& block, size_t bytes, bool small) {
  if (small) return true;
  const size_t limit = AcceleratorAllocatorConfig::max_split_size();
  if (bytes < limit) return block.size < limit;
  return block.size < bytes + AcceleratorAllocatorConfig::max_non_split_rounding_size();
}

bool should_split(const Block& block, size_t bytes, bool small) {
  const size_t rest = block.size - bytes;
  if (small || block.segment->grows) return rest >= kBlockGranularity;
  return bytes < AcceleratorAllocatorConfig::max_split_size() && rest > kSmallSize;
}

}  // namespace outboard
