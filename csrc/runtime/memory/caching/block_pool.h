// Blocks of cached memory, pools of free blocks, and the sizes of both. Pure data: no driver, no
// locks.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <outboard/driver.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/streams/stream.h"

namespace outboard {

class BlockPool;
class DeviceCache;
struct PoolSet;
struct Segment;

// Bytes. Every block starts at a multiple of this in its segment.
constexpr size_t kBlockGranularity = 512;

// A part of a segment. The blocks of a segment are linked in the order of their addresses. Two free
// blocks are never neighbours.
struct Block {
  enum class State : uint8_t {
    kFree,       // in its pool
    kAllocated,  // a tensor holds it
    kPending,    // freed, but other streams may use it; or memory is mapped or unmapped
    kUnmapped,   // addresses of a growing segment without memory
  };

  ob_address address = 0;
  size_t size = 0;
  size_t requested = 0;
  Segment* segment = nullptr;
  Block* previous = nullptr;
  Block* next = nullptr;
  // Links of the free blocks of a bin.
  Block* previous_free = nullptr;
  Block* next_free = nullptr;
  // Streams other than the segment's that use the block.
  std::vector<StreamState*> users;
  // Uses by other streams that have to pass before a pending block is free.
  uint32_t pending_uses = 0;
  State state = State::kFree;
  // Found by its address alone: the context of its DataPtr is the address.
  bool addressed = false;
  // The cache's clock at the time the block became free.
  uint64_t freed_at = 0;
  // The stack of its allocation, while history is recorded (memory_history.h).
  std::shared_ptr<c10::GatheredContext> context;

  // Whether it is a part of an allocation of the driver.
  bool is_split() const;
};

// An allocation of the driver, or a growing segment (growing_segments.cpp).
struct Segment {
  ob_address address = 0;
  size_t size = 0;  // bytes; of a growing one: of its addresses
  bool grows = false;
  size_t mapped = 0;  // bytes of memory of a growing one
  DeviceCache* cache = nullptr;
  BlockPool* pool = nullptr;
  Block* first = nullptr;
  // The stack of its allocation, as for blocks.
  std::shared_ptr<c10::GatheredContext> context;
  // The addressed block that starts at each multiple of kBlockGranularity; allocated with the first
  // one.
  std::unique_ptr<Block* [], void (*)(void*)> addressed_blocks { nullptr, nullptr };

  // nullptr if there is none.
  Block* addressed_block(ob_address start) const;
  void set_addressed(Block* block, bool addressed);
};

inline bool Block::is_split() const {
  return (previous != nullptr || next != nullptr) && !segment->grows;
}

// The free blocks of one kind (small or large) of one stream.
class BlockPool {
 public:
  BlockPool(PoolSet& owner, StreamState& stream, bool small);

  // The smallest free block of at least `size` bytes, which stays in the pool; nullptr if there is
  // none.
  Block* best_fit(size_t size) const;
  void insert(Block* block);
  void erase(Block* block);
  // The largest free block's size, 0 if there is none.
  size_t largest() const;

  template <typename Visitor>
  void for_each(Visitor visit) const {
    for (Block* head : bins_) {
      for (Block* block = head; block != nullptr; block = block->next_free) visit(block);
    }
  }

  PoolSet& owner() const { return owner_; }
  StreamState& stream() const { return stream_; }
  bool small() const { return small_; }
  // The growing segment of this pool; nullptr if there is none.
  Segment* growing() const { return growing_; }
  void set_growing(Segment* segment) { growing_ = segment; }

 private:
  size_t bin_of(size_t size) const;

  PoolSet& owner_;
  StreamState& stream_;
  const bool small_;
  Segment* growing_ = nullptr;
  // A list for each size of small blocks, or for each 64th of a power of two of large ones; a bit
  // for each list with a block; and a bit for each word of those bits. The block freed last is used
  // first.
  std::vector<Block*> bins_;
  std::array<uint64_t, 64> occupied_bins_{};
  uint64_t occupied_words_ = 0;
};

// ---- Sizes, as PyTorch's allocator settings say ----

inline size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}
// The size of the block for a tensor of `bytes`.
size_t block_size(size_t bytes);
// Whether such a block comes from a segment of small blocks.
bool is_small(size_t block_bytes);
// The size of a new segment for a block; `max_allocation` is the device's limit.
size_t segment_size(size_t block_bytes, size_t max_allocation);
// Whether `block` may serve an allocation of `bytes` at all.
bool may_use(const Block& block, size_t bytes, bool small);
// Whether the rest of `block` becomes another block.
bool should_split(const Block& block, size_t bytes, bool small);

}  // namespace outboard
