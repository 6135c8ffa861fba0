#include "runtime/block_pool.h"

#include <c10/core/AllocatorConfig.h>

#include <cstdlib>
#include <new>

namespace outboard {
namespace {

constexpr size_t kBins = c10::CachingAllocator::kSmallBuffer / kBlockGranularity;
constexpr size_t kWordBits = 64;
static_assert(kBins == kWordBits * kWordBits, "two levels of 64 bits cover all sizes");

// Sizes are multiples of the granularity, from one granule to a whole small segment.
size_t bin_of(size_t size) { return size / kBlockGranularity - 1; }

uint64_t bit(size_t index) { return uint64_t{1} << (index % kWordBits); }

}  // namespace

Block* Segment::addressed_block(ob_address start) const {
  if (addressed_blocks == nullptr || (start - address) % kBlockGranularity != 0) return nullptr;
  return addressed_blocks[(start - address) / kBlockGranularity];
}

void Segment::set_addressed(Block* block, bool addressed) {
  if (addressed_blocks == nullptr) {
    // calloc, because the pages of a large table that are never used cost nothing.
    void* table = std::calloc(size / kBlockGranularity, sizeof(Block*));
    if (table == nullptr) throw std::bad_alloc();
    addressed_blocks = {static_cast<Block**>(table), std::free};
  }
  block->addressed = addressed;
  addressed_blocks[(block->address - address) / kBlockGranularity] = addressed ? block : nullptr;
}

BlockPool::BlockPool(PoolSet& owner, StreamState& stream, bool small)
    : owner_(owner), stream_(stream), small_(small), bins_(small ? kBins : 0) {}

Block* BlockPool::best_fit(size_t size) const {
  if (!small_) {
    Block key;
    key.size = size;
    auto found = large_.lower_bound(&key);
    return found == large_.end() ? nullptr : *found;
  }
  const size_t bin = bin_of(size);
  const size_t word = bin / kWordBits;
  const uint64_t same_word = occupied_bins_[word] & ~(bit(bin) - 1);
  if (same_word != 0) return bins_[word * kWordBits + __builtin_ctzll(same_word)];
  const uint64_t later_words = occupied_words_ & ~(bit(word) | (bit(word) - 1));
  if (later_words == 0) return nullptr;
  const size_t next_word = __builtin_ctzll(later_words);
  return bins_[next_word * kWordBits + __builtin_ctzll(occupied_bins_[next_word])];
}

void BlockPool::insert(Block* block) {
  if (!small_) {
    large_.insert(block);
    return;
  }
  const size_t bin = bin_of(block->size);
  block->previous_free = nullptr;
  block->next_free = bins_[bin];
  if (block->next_free != nullptr) block->next_free->previous_free = block;
  bins_[bin] = block;
  occupied_bins_[bin / kWordBits] |= bit(bin);
  occupied_words_ |= bit(bin / kWordBits);
}

void BlockPool::erase(Block* block) {
  if (!small_) {
    large_.erase(block);
    return;
  }
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
  if (!small_) return large_.empty() ? 0 : (*large_.rbegin())->size;
  if (occupied_words_ == 0) return 0;
  const size_t word = kWordBits - 1 - __builtin_clzll(occupied_words_);
  const size_t bin = word * kWordBits + kWordBits - 1 - __builtin_clzll(occupied_bins_[word]);
  return (bin + 1) * kBlockGranularity;
}

}  // namespace outboard
