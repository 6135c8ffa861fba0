// Growing segments: one per pool, if the setting `expandable_segments` is on and the driver maps
// memory. A segment reserves addresses; memory is mapped where it is needed and unmapped where it
// is unused, in multiples of the driver's granularity. So memory freed in one size serves another.
// The idea is that of PyTorch's allocator for CUDA.
//
// The blocks of such a segment cover all of its addresses. Blocks without memory have the state
// kUnmapped, are in no pool, and are never neighbours of each other.
#include <c10/core/AllocatorConfig.h>

#include <algorithm>

#include "runtime/driver/driver_table.h"
#include "runtime/memory/address_registry.h"
#include "runtime/memory/caching/device_cache.h"

namespace outboard {
namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;

// Minimum of bytes mapped at once.
constexpr size_t kLeastMapping = 2 << 20;

// Some supported versions of PyTorch lack the setting.
template <typename Config>
bool is_asked_for() {
  if constexpr (requires { Config::use_expandable_segments(); }) {
    return Config::use_expandable_segments();
  } else {
    return false;
  }
}

bool is_free(const Block* block) { return block != nullptr && block->state == Block::State::kFree; }

bool is_unmapped(const Block* block) {
  return block != nullptr && block->state == Block::State::kUnmapped;
}

}  // namespace

bool DeviceCache::grows_segments() const {
  return driver_.memory_map != nullptr && is_asked_for<AcceleratorAllocatorConfig>();
}

// The growing segment of a pool, unmapped if it is new; nullptr if there are no addresses. Releases
// the lock meanwhile.
Segment* DeviceCache::reserve_addresses(Lock& lock, BlockPool& pool) {
  // More addresses than memory: holes between living tensors may be too small for others.
  const size_t bytes = round_up(total_memory_ + total_memory_ / 8, mapping_granularity_);
  lock.unlock();
  ob_address address = 0;
  const ob_status status = driver_.address_reserve(driver_.context, device_, bytes, &address);
  if (status != OB_OUT_OF_MEMORY) check_status(status, "address_reserve");
  if (status != OB_OK) {
    lock.lock();
    return pool.growing();
  }
  auto* segment =
      new Segment{.address = address, .size = bytes, .grows = true, .cache = this, .pool = &pool};
  add_allocation(AddressSpace::kDevice,
                 {.address = address, .bytes = bytes, .device = device_, .segment = segment});
  lock.lock();
  segment->first = new_block(segment, address, bytes);
  segment->first->state = Block::State::kUnmapped;
  segments_.emplace(address, segment);
  ++pool.owner().segments;
  if (pool.growing() != nullptr) {
    // Another thread reserved addresses meanwhile.
    drop_addresses(lock, {segment});
  } else {
    pool.set_growing(segment);
  }
  return pool.growing();
}

// Finds the first addresses where `bytes` are contiguous after mapping.
bool DeviceCache::find_room(Segment& segment, size_t bytes, Mapping& found) {
  for (Block* block = segment.first; block != nullptr; block = block->next) {
    if (!is_unmapped(block)) continue;
    Block* before = is_free(block->previous) ? block->previous : nullptr;
    Block* after = is_free(block->next) ? block->next : nullptr;
    const size_t already = before != nullptr ? before->size : 0;
    const size_t missing = bytes > already ? bytes - already : mapping_granularity_;
    size_t mapped = std::max(missing, kLeastMapping);
    mapped = std::min(round_up(mapped, mapping_granularity_), block->size);
    const bool whole = mapped == block->size;
    if (already + mapped + (whole && after != nullptr ? after->size : 0) < bytes) continue;
    if (!whole) cut(block, mapped);
    found = {block, before, whole ? after : nullptr};
    return true;
  }
  return false;
}

// A block of `bytes` in the growing segment of a pool, mapped as far as necessary; nullptr if there
// is not enough memory or no room. Releases the lock meanwhile.
Block* DeviceCache::extend(Lock& lock, BlockPool& pool, size_t bytes) {
  Segment* segment = pool.growing();
  if (segment == nullptr) segment = reserve_addresses(lock, pool);
  if (segment == nullptr) return nullptr;
  merge_last();
  Mapping mapping;
  if (!find_room(*segment, bytes, mapping)) return nullptr;
  Block* block = mapping.block;
  const size_t mapped = block->size;
  if (mapped > limit_ || reserved_ > limit_ - mapped) {
    make_unmapped(block);
    return nullptr;
  }
  // Pending blocks are not taken by other threads while the lock is released.
  block->state = Block::State::kPending;
  for (Block* beside : {mapping.before, mapping.after}) {
    if (beside == nullptr) continue;
    pool.erase(beside);
    beside->state = Block::State::kPending;
  }
  reserved_ += mapped;
  lock.unlock();
  const ob_status status = driver_.memory_map(driver_.context, device_, block->address, mapped);
  lock.lock();
  if (status != OB_OK) {
    reserved_ -= mapped;
    make_unmapped(block);
    for (Block* beside : {mapping.before, mapping.after}) {
      if (beside != nullptr) merge(beside);
    }
    if (status == OB_OUT_OF_MEMORY) return nullptr;
    lock.unlock();
    throw_status(status, "memory_map");
  }
  statistics_.map_memory(pool.small(), mapped, pool.owner().id, segment->mapped == 0);
  segment->mapped += mapped;
  note_memory(MemoryAction::kSegmentMap, pool, block->address, mapped);
  for (Block* beside : {mapping.before, mapping.after}) {
    if (beside != nullptr) join(block, beside);
  }
  if (block->size - bytes >= kBlockGranularity) {
    merge(cut(block, bytes));
  }
  return block;
}

// The part of a free block whose memory can be unmapped, out of the pool. The rest at its ends
// stays free.
Block* DeviceCache::releasable_part(Block* block) {
  const ob_address base = block->segment->address;
  const size_t start = block->address - base;
  const size_t from = round_up(start, mapping_granularity_);
  const size_t to = (start + block->size) / mapping_granularity_ * mapping_granularity_;
  BlockPool& pool = *block->segment->pool;
  pool.erase(block);
  if (to < start + block->size) pool.insert(cut(block, to - start));
  Block* part = block;
  if (from > start) {
    part = cut(block, from - start);
    pool.insert(block);
  }
  part->state = Block::State::kPending;
  Segment& segment = *part->segment;
  segment.mapped -= part->size;
  statistics_.unmap_memory(pool.small(), part->size, pool.owner().id, segment.mapped == 0);
  note_memory(MemoryAction::kSegmentUnmap, pool, part->address, part->size);
  return part;
}

// Marks an unused block without memory, joined with unmapped neighbours.
void DeviceCache::make_unmapped(Block* block) {
  block->state = Block::State::kUnmapped;
  block->requested = 0;
  for (Block* neighbour : {block->previous, block->next}) {
    if (is_unmapped(neighbour)) join(block, neighbour);
  }
}

// Releases the addresses of unmapped segments. Releases the lock meanwhile.
void DeviceCache::drop_addresses(Lock& lock, const std::vector<Segment*>& segments) {
  for (Segment* segment : segments) {
    BlockPool& pool = *segment->pool;
    if (pool.growing() == segment) pool.set_growing(nullptr);
    segments_.erase(segment->address);
    --pool.owner().segments;
    discard(segment->first);
  }
  lock.unlock();
  for (Segment* segment : segments) {
    remove_allocation(AddressSpace::kDevice, segment->address);
    defer_status(driver_.address_release(driver_.context, device_, segment->address, segment->size),
                 "address_release");
    delete segment;
  }
  lock.lock();
}

}  // namespace outboard
