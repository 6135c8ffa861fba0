// Blocks of cached memory, and pools of those that are free. Pure data: no driver, no locks.
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

// Every block starts at a multiple of this in its segment.
constexpr size_t kBlockGranularity = 512;

// A part of a segment. The blocks of a segment are linked in the order of their addresses, and two
// free neighbours never exist.
struct Block {
  enum class State : uint8_t {
    kFree,       // in its pool
    kAllocated,  // a tensor holds it
    kPending,    // given back, but other streams may still use it; or memory is mapped or unmapped
    kUnmapped,   // addresses of a growing segment that have no memory
  };

  ob_address address = 0;
  size_t size = 0;
  size_t requested = 0;
  Segment* segment = nullptr;
  Block* previous = nullptr;
  Block* next = nullptr;
  // Among free blocks of the same bin.
  Block* previous_free = nullptr;
  Block* next_free = nullptr;
  // Streams other than the segment's that use the block.
  std::vector<StreamState*> users;
  // Uses by other streams that have to pass before a pending block is free.
  uint32_t pending_uses = 0;
  State state = State::kFree;
  // Found by its address alone: the context of its DataPtr is the memory itself.
  bool addressed = false;
  // The cache's clock at the time the block became free.
  uint64_t freed_at = 0;
  // Where it was allocated, while history is recorded (memory_history.h).
  std::shared_ptr<c10::GatheredContext> context;

  // Whether it is a part of what the driver gave in one piece.
  bool is_split() const;
};

// What one call of the driver's `allocate` returned; or a growing one (growing_segments.cpp).
struct Segment {
  ob_address address = 0;
  size_t size = 0;  // of a growing one: of its addresses
  bool grows = false;
  size_t mapped = 0;  // bytes of memory that a growing one has
  DeviceCache* cache = nullptr;
  BlockPool* pool = nullptr;
  Block* first = nullptr;
  // Where it was taken, as for blocks.
  std::shared_ptr<c10::GatheredContext> context;
  // The addressed block that starts at each granule; made at the first one.
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

  // The smallest free block of at least `size` bytes, left in place; nullptr if there is none.
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
  // The segment that grows where there is no room; nullptr if there is none.
  Segment* growing() const { return growing_; }
  void set_growing(Segment* segment) { growing_ = segment; }

 private:
  size_t bin_of(size_t size) const;

  PoolSet& owner_;
  StreamState& stream_;
  const bool small_;
  Segment* growing_ = nullptr;
  // A list for each size that small blocks can have, or for each 64th of a power of two of large
  // ones, and a bit for each list that has a block, with a bit for each word of those bits. The
  // block freed last is used first.
  std::vector<Block*> bins_;
  std::array<uint64_t, 64> occupied_bins_{};
  uint64_t occupied_words_ = 0;
};

}  // namespace outboard
