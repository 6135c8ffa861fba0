#include "runtime/memory/caching/block_pool.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace outboard {
namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::kMinLargeAlloc;
using c10::CachingAllocator::kRoundLarge;
using c10::CachingAllocator::kSmallBuffer;
using c10::CachingAllocator::kSmallSize;

static_assert(kBlockGranularity == c10::CachingAllocator::kMinBlockSize);

// Versions of PyTorch without the setting have its default as a constant.
template <typename Config>
size_t large_segment_size() {
  if constexpr (requires { Config::large_segment_size(); }) {
    return Config::large_segment_size();
  } else {
    return 20 << 20;
  }
}

constexpr size_t kWordBits = 64;
constexpr size_t kBins = kWordBits * kWordBits;
static_assert(kBins == kSmallBuffer / kBlockGranularity,
              "there is a bin for each size of small blocks");

uint64_t bit(size_t index) { return uint64_t{1} << (index % kWordBits); }

size_t power_of(size_t size) { return 63 - static_cast<size_t>(__builtin_clzll(size)); }

// The smallest block of a list that has at least `size` bytes.
Block* smallest(Block* head, size_t size) {
  Block* best = nullptr;
  for (Block* block = head; block != nullptr; block = block->next_free) {
    if (block->size < size || (best != nullptr && block->size >= best->size)) continue;
    best = block;
    if (best->size == size) break;
  }
  return best;
}

}  // namespace

Block* Segment::addressed_block(ob_address start) const {
  if (addressed_blocks == nullptr || (start - address) % kBlockGranularity != 0) return nullptr;
  return addressed_blocks[(start - address) / kBlockGranularity];
}

void Segment::set_addressed(Block* block, bool addressed) {
  if (addressed_blocks == nullptr) {
    // calloc: unused pages of a large table take no memory.
    void* table = std::calloc(size / kBlockGranularity, sizeof(Block*));
    if (table == nullptr) throw std::bad_alloc();
    addressed_blocks = {static_cast<Block**>(table), std::free};
  }
  block->addressed = addressed;
  addressed_blocks[(block->address - address) / kBlockGranularity] = addressed ? block : nullptr;
}

BlockPool::BlockPool(PoolSet& owner, StreamState& stream, bool small)
    : owner_(owner), stream_(stream), small_(small), bins_(kBins) {}

size_t BlockPool::bin_of(size_t size) const {
  // Larger blocks are free parts of a growing segment: all are large enough for any small block.
  if (small_) return std::min(size / kBlockGranularity, kBins) - 1;
  // The power of two, and the six bits after it.
  const size_t power = power_of(size);
  return power * kWordBits + ((size >> (power - 6)) & (kWordBits - 1));
}

Block* BlockPool::best_fit(size_t size) const {
  const size_t bin = bin_of(size);
  if (Block* block = small_ ? bins_[bin] : smallest(bins_[bin], size)) return block;
  size_t word = bin / kWordBits;
  uint64_t later = occupied_bins_[word] & (~uint64_t{1} << (bin % kWordBits));
  if (later == 0) {
    const uint64_t later_words = occupied_words_ & (~uint64_t{1} << word);
    if (later_words == 0) return nullptr;
    word = static_cast<size_t>(__builtin_ctzll(later_words));
    later = occupied_bins_[word];
  }
  Block* head = bins_[word * kWordBits + static_cast<size_t>(__builtin_ctzll(later))];
  return small_ ? head : smallest(head, size);
}

void BlockPool::insert(Block* block) {
  const size_t bin = bin_of(block->size);
  block->previous_free = nullptr;
  block->next_free = bins_[bin];
  if (block->next_free != nullptr) block->next_free->previous_free = block;
  bins_[bin] = block;
  occupied_bins_[bin / kWordBits] |= bit(bin);
  occupied_words_ |= bit(bin / kWordBits);
}

void BlockPool::erase(Block* block) {
  if (block->next_free != nullptr) block->next_free->previous_free = block->previous_free;
  if (block->previous_free != nullptr) {
    block->previous_free->next_free = block->next_free;
    return;
  }
  const size_t bin = bin_of(block->size);
  bins_[bin] = block->next_free;
  if (bins_[bin] != nullptr) return;
  uint64_t& word = occupied_bins_[bin / kWordBits];
  word &= ~bit(bin);
  if (word == 0) occupied_words_ &= ~bit(bin / kWordBits);
}

size_t BlockPool::largest() const {
  if (occupied_words_ == 0) return 0;
  const size_t word = power_of(occupied_words_);
  size_t size = 0;
  Block* head = bins_[word * kWordBits + power_of(occupied_bins_[word])];
  for (Block* block = head; block != nullptr; block = block->next_free) {
    size = std::max(size, block->size);
  }
  return size;
}

// ---- Sizes ----

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
