// Segments of a device's cache: their allocation, and when they are freed.
#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "runtime/driver/driver_table.h"
#include "runtime/memory/address_registry.h"
#include "runtime/memory/caching/device_cache.h"

namespace outboard {
namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::format_size;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

// Shortens a list of blocks to the first ones that have `bytes` together.
void keep_first(std::vector<Block*>& blocks, size_t bytes) {
  size_t sum = 0;
  size_t count = 0;
  while (count < blocks.size() && sum < bytes) sum += blocks[count++]->size;
  blocks.resize(count);
}

// Keeps a set of pools alive while the lock is released.
class Hold {
 public:
  Hold(std::unique_lock<std::mutex>& lock, PoolSet& pools) : lock_(lock), pools_(pools) {
    ++pools_.holds;
  }
  ~Hold() {
    if (!lock_.owns_lock()) lock_.lock();
    --pools_.holds;
  }
  C10_DISABLE_COPY_AND_ASSIGN(Hold);

 private:
  std::unique_lock<std::mutex>& lock_;
  PoolSet& pools_;
};

}  // namespace

// ---- Allocation ----

// A block from a new segment when no cached block fits, after freeing cached memory if need be.
Block* DeviceCache::grow(Lock& lock, BlockPool& pool, size_t bytes, size_t requested) {
  driver();  // raises when the process is exiting
  const Hold hold(lock, pool.owner());
  const size_t wanted = segment_size(bytes, max_allocation_);
  collect_garbage(lock, wanted);
  Block* block = try_segment(lock, pool, wanted, bytes);
  if (block != nullptr) return block;

  statistics_.count_retry();
  if (release_oversize(lock, pool, wanted)) {
    block = try_segment(lock, pool, wanted, bytes);
    if (block != nullptr) return block;
  }
  statistics_.count_synchronization();
  reclaim(lock, /*wait=*/true);
  block = take(pool, bytes);
  if (block != nullptr) return block;
  release_unused(lock, {0, 0});
  // Other threads may free memory at the same time. Bounded: they may begin again and again.
  settled_.wait_for(lock, std::chrono::seconds(1), [this] { return in_flight_ == 0; });
  block = take(pool, bytes);
  if (block == nullptr) block = try_segment(lock, pool, wanted, bytes);
  if (block == nullptr && bytes < wanted) block = try_segment(lock, pool, bytes, bytes);
  if (block == nullptr) throw_out_of_memory(lock, requested);
  return block;
}

// A block of `block_bytes` from a new segment of `bytes`, or from a growing one; nullptr if there
// is not enough memory. Releases the lock meanwhile.
Block* DeviceCache::try_segment(Lock& lock, BlockPool& pool, size_t bytes, size_t block_bytes) {
  if (grows_segments()) {
    if (Block* block = extend(lock, pool, block_bytes)) return block;
  }
  if (bytes > limit_ || reserved_ > limit_ - bytes) return nullptr;
  reserved_ += bytes;
  lock.unlock();
  ob_address address = 0;
  const ob_status status = allocate_memory(driver_, device_, bytes, &address);
  if (status != OB_OK) {
    lock.lock();
    reserved_ -= bytes;
    if (status == OB_OUT_OF_MEMORY) return nullptr;
    lock.unlock();
    throw_status(status, "allocate");
  }
  auto* segment = new Segment{.address = address, .size = bytes, .cache = this, .pool = &pool};
  if (records_memory_history()) {
    segment->context = gather_memory_context(MemoryAction::kSegmentAlloc);
    note_memory(MemoryAction::kSegmentAlloc, pool, address, bytes, segment->context);
  }
  add_allocation(AddressSpace::kDevice,
                 {.address = address, .bytes = bytes, .device = device_, .segment = segment});
  lock.lock();
  segments_.emplace(address, segment);
  ++pool.owner().segments;
  statistics_.add_segment(pool.small(), bytes, pool.owner().id);
  Block* block = new_block(segment, address, bytes);
  segment->first = block;
  if (should_split(*block, block_bytes, pool.small())) {
    split(block, block_bytes);
    statistics_.change_inactive_split(pool.small(), 1, static_cast<int64_t>(block->next->size));
  }
  return block;
}

void DeviceCache::throw_out_of_memory(Lock& lock, size_t bytes) {
  statistics_.count_out_of_memory();
  const size_t in_use = static_cast<size_t>(statistics_.allocated_bytes());
  const size_t reserved = static_cast<size_t>(statistics_.reserved_bytes());
  size_t largest = 0;
  const auto look = [&](const BlockPool& pool) { largest = std::max(largest, pool.largest()); };
  default_pools_.for_each_pool(look);
  for (const auto& entry : private_pools_) entry.second->for_each_pool(look);
  const size_t limit = limit_;
  lock.unlock();

  uint64_t free_bytes = 0;
  uint64_t total_bytes = total_memory_;
  defer_status(driver_.memory_info(driver_.context, device_, &free_bytes, &total_bytes),
               "memory_info");
  if (records_memory_history()) {
    note_memory_event(MemoryAction::kOutOfMemory, device_, free_bytes, bytes, nullptr, {0, 0},
                      gather_memory_context(MemoryAction::kOutOfMemory));
  }
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), in_use, reserved,
                                   device_of(device_));
  std::string limited;
  if (limit != SIZE_MAX) {
    limited =
        " This process is limited to " + format_size(limit) + " of it by its memory fraction.";
  }
  // Devices limit the size of one allocation, however much memory is free.
  const uint64_t most = device_properties(device_).max_allocation;
  std::string too_large;
  if (bytes > most) {
    too_large = " One allocation of the device has at most " + format_size(most) +
                ", however much is free: use smaller tensors.";
  }
  const size_t cached = reserved > in_use ? reserved - in_use : 0;
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, device_of(device_), " is out of memory: ", format_size(bytes),
      " were asked for, and ", format_size(free_bytes), " of ", format_size(total_bytes),
      " are free.", too_large, limited, " This process has reserved ", format_size(reserved), ": ",
      format_size(in_use), " are in use by tensors and ", format_size(cached), " are cached, with ",
      format_size(largest),
      " in the largest free block. Delete tensors that are not needed, or use smaller batches; "
      "if much is cached, memory is fragmented, and PYTORCH_ALLOC_CONF=max_split_size_mb:<size> "
      "can help.");
}

// ---- Release ----

// Whether memory of a free block can be released: it fills its segment, or contains whole pieces of
// a growing one.
bool DeviceCache::is_releasable(const Block* block) const {
  if (!block->segment->grows) return !block->is_split();
  const size_t start = block->address - block->segment->address;
  const size_t whole = (start + mapping_granularity_ - 1) / mapping_granularity_;
  return (start + block->size) / mapping_granularity_ > whole;
}

void DeviceCache::add_releasable(const BlockPool& pool, std::vector<Block*>& blocks) const {
  pool.for_each([&](Block* block) {
    if (is_releasable(block)) blocks.push_back(block);
  });
}

// Releases the memory of releasable blocks. Releases the lock meanwhile.
void DeviceCache::release(Lock& lock, std::vector<Block*> blocks) {
  if (blocks.empty()) return;
  ++in_flight_;
  std::vector<Segment*> segments;
  std::vector<Block*> parts;
  std::vector<StreamState*> streams;
  for (Block* block : blocks) {
    Segment* segment = block->segment;
    BlockPool& pool = *segment->pool;
    if (segment->grows) {
      parts.push_back(releasable_part(block));
    } else {
      pool.erase(block);
      discard(block);
      segments_.erase(segment->address);
      --pool.owner().segments;
      statistics_.remove_segment(pool.small(), segment->size, pool.owner().id);
      segments.push_back(segment);
      note_memory(MemoryAction::kSegmentFree, pool, segment->address, segment->size);
    }
    if (std::find(streams.begin(), streams.end(), &pool.stream()) == streams.end()) {
      streams.push_back(&pool.stream());
    }
  }
  lock.unlock();
  // Earlier work on the stream may still use a free block.
  std::exception_ptr failure;
  for (StreamState* stream : streams) {
    try {
      synchronize_stream(*stream);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  size_t bytes = 0;
  for (Segment* segment : segments) {
    remove_allocation(AddressSpace::kDevice, segment->address);
    defer_status(driver_.deallocate(driver_.context, device_, segment->address), "deallocate");
    bytes += segment->size;
    delete segment;
  }
  for (Block*& part : parts) {
    const ob_status status =
        driver_.memory_unmap(driver_.context, device_, part->address, part->size);
    defer_status(status, "memory_unmap");
    if (status == OB_OK) {
      bytes += part->size;
      continue;
    }
    lock.lock();
    BlockPool& pool = *part->segment->pool;
    const bool first = part->segment->mapped == 0;
    statistics_.map_memory(pool.small(), part->size, pool.owner().id, first);
    part->segment->mapped += part->size;
    note_memory(MemoryAction::kSegmentMap, pool, part->address, part->size);
    merge(part);
    lock.unlock();
    part = nullptr;
  }
  lock.lock();
  reserved_ -= bytes;
  std::vector<Segment*> empty;
  for (Block* part : parts) {
    if (part == nullptr) continue;
    Segment* segment = part->segment;
    make_unmapped(part);
    const Block* first = segment->first;
    if (first->state == Block::State::kUnmapped && first->next == nullptr) empty.push_back(segment);
  }
  drop_addresses(lock, empty);
  if (--in_flight_ == 0) settled_.notify_all();
  if (failure != nullptr) std::rethrow_exception(failure);
}

// Releases the unused memory of one private pool, or with {0, 0} of the default pools and of
// private pools without users.
void DeviceCache::release_unused(Lock& lock, c10::MempoolId_t pool) {
  merge_last();
  std::vector<Block*> blocks;
  const auto collect = [&](const BlockPool& each) { add_releasable(each, blocks); };
  if (pool == c10::MempoolId_t{0, 0}) {
    default_pools_.for_each_pool(collect);
    for (const auto& entry : private_pools_) {
      if (entry.second->uses == 0) entry.second->for_each_pool(collect);
    }
  } else if (PoolSet* pools = private_pools(pool)) {
    pools->for_each_pool(collect);
  }
  release(lock, std::move(blocks));
  erase_unused_private_pools();
}

void DeviceCache::empty(c10::MempoolId_t pool) {
  Lock lock(mutex_);
  statistics_.count_synchronization();
  reclaim(lock, /*wait=*/true);
  release_unused(lock, pool);
}

// Releases oversize blocks, which the setting max_split_size never splits, largest first, until
// `bytes` are free. Whether anything was released.
bool DeviceCache::release_oversize(Lock& lock, BlockPool& pool, size_t bytes) {
  const size_t oversize = AcceleratorAllocatorConfig::max_split_size();
  if (pool.small() || oversize == SIZE_MAX) return false;
  merge_last();
  std::vector<Block*> blocks;
  add_releasable(pool, blocks);
  std::erase_if(blocks, [&](const Block* block) { return block->size < oversize; });
  std::sort(blocks.begin(), blocks.end(),
            [](const Block* a, const Block* b) { return a->size > b->size; });
  keep_first(blocks, bytes);
  const bool any = !blocks.empty();
  release(lock, std::move(blocks));
  return any;
}

// Releases the large blocks that are unused for the longest time, before the process exceeds the
// garbage collection threshold, a fraction of its memory.
void DeviceCache::collect_garbage(Lock& lock, size_t bytes) {
  const double threshold = AcceleratorAllocatorConfig::garbage_collection_threshold();
  if (threshold <= 0.0) return;
  const size_t allowed =
      static_cast<size_t>(threshold * static_cast<double>(std::min(limit_, total_memory_)));
  if (reserved_ + bytes <= allowed) return;
  merge_last();
  const size_t excess = reserved_ + bytes - allowed;
  std::vector<Block*> blocks;
  default_pools_.for_each_pool([&](const BlockPool& pool) {
    if (!pool.small()) add_releasable(pool, blocks);
  });
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; });
  keep_first(blocks, excess);
  release(lock, std::move(blocks));
}

// ---- Snapshot ----

void DeviceCache::append_snapshot(c10::MempoolId_t pool, std::vector<SegmentInfo>& segments) {
  Lock lock(mutex_);
  merge_last();
  for (const auto& entry : segments_) {
    const Segment& segment = *entry.second;
    const PoolSet& owner = segment.pool->owner();
    if (pool != c10::MempoolId_t{0, 0} && pool != owner.id) continue;
    bool begins = true;
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      // Each mapped piece of a growing segment appears as a segment.
      if (block->state == Block::State::kUnmapped) {
        begins = true;
        continue;
      }
      if (begins) {
        begins = false;
        SegmentInfo& begun = segments.emplace_back();
        begun.device = device_;
        begun.address = block->address;
        begun.stream = segment.pool->stream().queue;
        begun.is_large = !segment.pool->small();
        begun.is_expandable = segment.grows;
        begun.owner_private_pool_id = owner.id;
        begun.context_when_allocated = segment.context;
      }
      SegmentInfo& info = segments.back();
      info.total_size += block->size;
      BlockInfo& part = info.blocks.emplace_back();
      part.size = block->size;
      part.requested_size = block->requested;
      part.context_when_allocated = block->context;
      part.allocated = block->state == Block::State::kAllocated;
      part.active = block->state != Block::State::kFree;
      part.gc_counter = part.active ? 0 : static_cast<int32_t>(clock_ - block->freed_at);
      info.requested_size += block->requested;
      if (part.allocated) info.allocated_size += block->size;
      if (part.active) info.active_size += block->size;
    }
  }
}

}  // namespace outboard
