// The cached memory of one device.
//
// A block belongs to the stream of its allocation, and later allocations on that stream reuse it at
// once: work on a stream is in order. A block that other streams used is free when events recorded
// on them have happened.
//
// The mutex guards all fields and is never held while the driver is called: a method takes what it
// needs out of the structures, unlocks, calls, locks, and stores the outcome. Such methods say
// "releases the lock meanwhile". `in_flight_` counts threads that do so with memory that may become
// free.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/export.h"
#include "runtime/memory/caching/allocator_statistics.h"
#include "runtime/memory/caching/block_pool.h"
#include "runtime/memory/memory_history.h"
#include "runtime/streams/event.h"

namespace outboard {

// The pools of all streams: the default set, or those of a private pool.
struct PoolSet {
  struct OfStream {
    BlockPool small;
    BlockPool large;
  };

  explicit PoolSet(c10::MempoolId_t pool_id) : id(pool_id) {}
  BlockPool& pool(StreamState& stream, bool small);
  template <class Visitor>
  void for_each_pool(Visitor visit) const {
    for (const auto& stream : streams) {
      if (stream == nullptr) continue;
      visit(stream->small);
      visit(stream->large);
    }
  }

  const c10::MempoolId_t id;
  // By the stream's id; nullptr for streams without allocations.
  std::vector<std::unique_ptr<OfStream>> streams;
  // Private pools: calls of begin_allocate_to_pool without their release_pool.
  int uses = 0;
  size_t segments = 0;
  // Threads that allocate here with the lock released, or between begin and end.
  int holds = 0;
};

class OUTBOARD_API DeviceCache {
 private:
  using Lock = std::unique_lock<std::mutex>;

 public:
  DeviceCache(c10::DeviceIndex device, const ob_driver& driver);

  // A block of at least `bytes` > 0 for use on `stream`. Raises torch.OutOfMemoryError. `addressed`
  // blocks can be freed by their address.
  Block* allocate(StreamState& stream, size_t bytes, bool addressed);
  // Never waits and never throws.
  void free(Block* block) noexcept;
  void record_stream(Block* block, StreamState& stream);
  // For the history of memory, after an allocation and before a free. The caller owns the block.
  void note_allocation(Block& block, MemoryContext context) noexcept;
  void note_free(Block& block) noexcept;
  // The allocated block that contains `address`, which lies in `segment`; nullptr if it is free.
  Block* find_block(const Segment& segment, ob_address address);
  // Lets find_addressed find an allocated block.
  void make_addressed(Block* block) {
    const Lock lock(mutex_);
    block->segment->set_addressed(block, true);
  }
  Block* find_addressed(const Segment& segment, ob_address address) {
    const Lock lock(mutex_);
    return segment.addressed_block(address);
  }

  // Frees all unused memory: of one private pool; or with {0, 0} of the default pools and of
  // private pools without users.
  void empty(c10::MempoolId_t pool);

  // Private pools, for graphs: between begin and end, allocations of this thread come from the
  // pool. Each begin is matched by a release; after the last release empty() frees the pool's
  // memory.
  void begin_allocate_to_pool(c10::MempoolId_t pool);
  void end_allocate_to_pool(c10::MempoolId_t pool);
  void release_pool(c10::MempoolId_t pool);

  // Limits this process to a fraction, in [0, 1], of the device's memory. Frees nothing.
  void set_fraction(double fraction);
  double fraction() {
    const Lock lock(mutex_);
    return fraction_;
  }
  size_t reserved() {
    const Lock lock(mutex_);
    return reserved_;
  }

  void account_adopted(int64_t bytes);
  c10::CachingDeviceAllocator::DeviceStats statistics();
  void reset_accumulated_statistics() {
    const Lock lock(mutex_);
    statistics_.reset_accumulated();
  }
  void reset_peak_statistics() {
    const Lock lock(mutex_);
    statistics_.reset_peak();
  }
  // Bytes in use by tensors, and bytes of all segments.
  std::pair<size_t, size_t> totals();
  void append_snapshot(c10::MempoolId_t pool,
                       std::vector<c10::CachingDeviceAllocator::SegmentInfo>& segments);

  c10::DeviceIndex device() const { return device_; }

 private:
  struct PendingUse {
    Block* block;
    StreamMarker marker;
  };
  struct PendingStream {
    StreamState* stream;
    // In stream order.
    std::deque<PendingUse> uses;
  };
  struct Capture {
    PoolSet* pools;
    std::thread::id thread;
  };

  PoolSet& pools_of_this_thread();
  PoolSet* private_pools(c10::MempoolId_t pool);

  // For the history of memory, if it is recorded.
  void note_memory(MemoryAction action, const BlockPool& pool, ob_address address, size_t bytes,
                   MemoryContext context = nullptr) noexcept;

  // Blocks.
  Block* new_block(Segment* segment, ob_address address, size_t size);
  void discard(Block* block);
  Block* take(BlockPool& pool, size_t bytes);
  void split(Block* block, size_t bytes);
  void put_back(Block* block);
  void set_aside(Block* block);
  void merge_last();
  void merge(Block* block);
  void join(Block* block, Block* neighbour);
  Block* cut(Block* block, size_t bytes);

  // Uses by other streams.
  void mark_uses(Lock& lock, Block* block);
  void reclaim(Lock& lock, bool wait);

  // Segments.
  Block* grow(Lock& lock, BlockPool& pool, size_t bytes, size_t requested);
  Block* try_segment(Lock& lock, BlockPool& pool, size_t bytes, size_t block_bytes);
  bool is_releasable(const Block* block) const;
  void add_releasable(const BlockPool& pool, std::vector<Block*>& blocks) const;
  void release(Lock& lock, std::vector<Block*> blocks);
  void release_unused(Lock& lock, c10::MempoolId_t pool);
  bool release_oversize(Lock& lock, BlockPool& pool, size_t bytes);
  void collect_garbage(Lock& lock, size_t bytes);
  void erase_unused_private_pools();

  // Segments that grow.
  struct Mapping {
    Block* block;   // addresses to map
    Block* before;  // free neighbours, or nullptr
    Block* after;
  };
  bool grows_segments() const;
  Segment* reserve_addresses(Lock& lock, BlockPool& pool);
  bool find_room(Segment& segment, size_t bytes, Mapping& found);
  Block* extend(Lock& lock, BlockPool& pool, size_t bytes);
  Block* releasable_part(Block* block);
  void make_unmapped(Block* block);
  void drop_addresses(Lock& lock, const std::vector<Segment*>& segments);

  [[noreturn]] void throw_out_of_memory(Lock& lock, size_t bytes);

  const c10::DeviceIndex device_;
  const ob_driver& driver_;
  const size_t total_memory_;
  const size_t max_allocation_;
  const size_t mapping_granularity_;

  std::mutex mutex_;
  AllocatorStatistics statistics_;
  PoolSet default_pools_{{0, 0}};
  std::map<c10::MempoolId_t, std::unique_ptr<PoolSet>> private_pools_;
  std::vector<Capture> captures_;
  // Freed while a private pool was in use: their streams are marked after it.
  std::vector<Block*> blocks_to_mark_;
  std::deque<PendingStream> pending_;
  size_t pending_uses_ = 0;
  // One-entry cache of the last freed block, not merged yet: programs often allocate the same size
  // next, without a split and a merge. Call merge_last() before reading the free blocks.
  Block* set_aside_ = nullptr;
  Block* spare_blocks_ = nullptr;
  // Bytes of all segments, calls under way included.
  size_t reserved_ = 0;
  double fraction_ = 1.0;
  // Limit of reserved_, in bytes. With a fraction of 1 the driver alone limits.
  size_t limit_ = SIZE_MAX;
  uint64_t clock_ = 0;
  int in_flight_ = 0;
  std::condition_variable settled_;
  std::map<ob_address, Segment*> segments_;
};

}  // namespace outboard
