#include "runtime/memory/caching/device_cache.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/driver/driver_table.h"

namespace outboard {

BlockPool& PoolSet::pool(StreamState& stream, bool small) {
  const size_t index = static_cast<size_t>(stream.id);
  if (index >= streams.size()) streams.resize(index + 1);
  if (streams[index] == nullptr) {
    streams[index].reset(
        new OfStream{BlockPool(*this, stream, true), BlockPool(*this, stream, false)});
  }
  return small ? streams[index]->small : streams[index]->large;
}

DeviceCache::DeviceCache(c10::DeviceIndex device, const ob_driver& driver)
    : device_(device),
      driver_(driver),
      total_memory_(device_properties(device).total_memory),
      max_allocation_(device_properties(device).max_allocation),
      mapping_granularity_(device_properties(device).mapping_granularity) {}

// ---- Allocation and free ----

Block* DeviceCache::allocate(StreamState& stream, size_t bytes, bool addressed) {
  // Beyond any device, and safe to round up.
  constexpr size_t kMost = size_t{1} << 60;
  Lock lock(mutex_);
  if (bytes > kMost) throw_out_of_memory(lock, bytes);
  if (pending_uses_ != 0) reclaim(lock, /*wait=*/false);
  ++clock_;
  const size_t size = block_size(bytes);
  BlockPool& pool = pools_of_this_thread().pool(stream, is_small(size));
  Block* block = nullptr;
  if (set_aside_ != nullptr && set_aside_->size == size && set_aside_->segment->pool == &pool) {
    block = std::exchange(set_aside_, nullptr);
  } else {
    merge_last();
    block = take(pool, size);
    if (block == nullptr) block = grow(lock, pool, size, bytes);
  }
  block->state = Block::State::kAllocated;
  block->requested = bytes;
  if (addressed) block->segment->set_addressed(block, true);
  statistics_.add_allocation(pool.small(), block->size, bytes);
  return block;
}

void DeviceCache::free(Block* block) noexcept {
  Lock lock(mutex_);
  statistics_.remove_allocation(block->segment->pool->small(), block->size);
  if (block->addressed) block->segment->set_addressed(block, false);
  merge_last();
  block->state = Block::State::kPending;
  if (block->users.empty()) {
    set_aside(block);
    return;
  }
  if (captures_.empty()) {
    mark_uses(lock, block);
  } else {
    blocks_to_mark_.push_back(block);
  }
}

void DeviceCache::record_stream(Block* block, StreamState& stream) {
  Lock lock(mutex_);
  if (&stream == &block->segment->pool->stream()) return;
  auto& users = block->users;
  if (std::find(users.begin(), users.end(), &stream) == users.end()) users.push_back(&stream);
}

Block* DeviceCache::find_block(const Segment& segment, ob_address address) {
  Lock lock(mutex_);
  merge_last();
  Block* block = segment.first;
  while (block != nullptr && address - block->address >= block->size) block = block->next;
  if (block == nullptr || block->state != Block::State::kAllocated) return nullptr;
  return block;
}

// ---- History ----

void DeviceCache::note_memory(MemoryAction action, const BlockPool& pool, ob_address address,
                              size_t bytes, MemoryContext context) noexcept {
  if (!records_memory_history()) return;
  note_memory_event(action, device_, address, bytes, pool.stream().queue, pool.owner().id,
                    std::move(context));
}

// The owner alone changes the context of a block; snapshots read it under the lock.
void DeviceCache::note_allocation(Block& block, MemoryContext context) noexcept {
  note_memory(MemoryAction::kAlloc, *block.segment->pool, block.address, block.size, context);
  Lock lock(mutex_);
  block.context = std::move(context);
}

void DeviceCache::note_free(Block& block) noexcept {
  if (records_memory_history()) {
    note_memory(MemoryAction::kFreeRequested, *block.segment->pool, block.address, block.size,
                gather_memory_context(MemoryAction::kFreeRequested));
  }
  MemoryContext dropped;  // destroyed after the lock
  Lock lock(mutex_);
  block.context.swap(dropped);
}

// ---- Blocks ----

Block* DeviceCache::new_block(Segment* segment, ob_address address, size_t size) {
  Block* block = spare_blocks_;
  if (block == nullptr) {
    block = new Block();
  } else {
    spare_blocks_ = std::exchange(block->next, nullptr);
  }
  block->segment = segment;
  block->address = address;
  block->size = size;
  return block;
}

void DeviceCache::discard(Block* block) {
  block->previous = nullptr;
  block->next = spare_blocks_;
  spare_blocks_ = block;
}

Block* DeviceCache::take(BlockPool& pool, size_t bytes) {
  Block* block = pool.best_fit(bytes);
  if (block == nullptr || !may_use(*block, bytes, pool.small())) return nullptr;
  pool.erase(block);
  const bool was_split = block->is_split();
  if (should_split(*block, bytes, pool.small())) {
    split(block, bytes);
    if (was_split) {
      statistics_.change_inactive_split(pool.small(), 0, -static_cast<int64_t>(bytes));
    } else if (block->next->is_split()) {
      statistics_.change_inactive_split(pool.small(), 1, static_cast<int64_t>(block->next->size));
    }
  } else if (was_split) {
    statistics_.change_inactive_split(pool.small(), -1, -static_cast<int64_t>(block->size));
  }
  return block;
}

// Makes the part of `block` beyond `bytes` a free block.
void DeviceCache::split(Block* block, size_t bytes) {
  Block* rest = cut(block, bytes);
  rest->state = Block::State::kFree;
  block->segment->pool->insert(rest);
}

// Makes the part of `block` beyond `bytes` another block in the same state, and returns it.
Block* DeviceCache::cut(Block* block, size_t bytes) {
  Block* rest = new_block(block->segment, block->address + bytes, block->size - bytes);
  rest->state = block->state;
  rest->freed_at = block->freed_at;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->size = bytes;
  return rest;
}

// Joins `block` with a neighbour that is in no pool.
void DeviceCache::join(Block* block, Block* neighbour) {
  block->size += neighbour->size;
  if (neighbour == block->previous) {
    block->address = neighbour->address;
    block->previous = neighbour->previous;
    if (block->previous != nullptr) {
      block->previous->next = block;
    } else {
      block->segment->first = block;
    }
  } else {
    block->next = neighbour->next;
    if (block->next != nullptr) block->next->previous = block;
  }
  discard(neighbour);
}

// Frees a block without users.
void DeviceCache::put_back(Block* block) {
  set_aside(block);
  merge_last();
}

// The same, but the block becomes the one-entry cache instead of being merged.
void DeviceCache::set_aside(Block* block) {
  merge_last();
  statistics_.remove_active(block->segment->pool->small(), block->size, block->requested);
  if (C10_UNLIKELY(records_memory_history())) {
    note_memory(MemoryAction::kFreeCompleted, *block->segment->pool, block->address, block->size);
  }
  block->requested = 0;
  block->freed_at = clock_;
  set_aside_ = block;
}

void DeviceCache::merge_last() {
  if (set_aside_ != nullptr) merge(std::exchange(set_aside_, nullptr));
}

// Joins `block` with its free neighbours into a free block.
void DeviceCache::merge(Block* block) {
  BlockPool& pool = *block->segment->pool;
  int64_t inactive_blocks = 0;
  int64_t inactive_bytes = 0;
  for (Block* neighbour : {block->previous, block->next}) {
    if (neighbour == nullptr || neighbour->state != Block::State::kFree) continue;
    if (neighbour->is_split()) {
      --inactive_blocks;
      inactive_bytes -= static_cast<int64_t>(neighbour->size);
    }
    pool.erase(neighbour);
    join(block, neighbour);
  }
  block->state = Block::State::kFree;
  pool.insert(block);
  if (block->is_split()) {
    ++inactive_blocks;
    inactive_bytes += static_cast<int64_t>(block->size);
  }
  statistics_.change_inactive_split(pool.small(), inactive_blocks, inactive_bytes);
}

// ---- Uses by other streams ----

// The block is freed once its users have done their present work. Releases the lock meanwhile.
void DeviceCache::mark_uses(Lock& lock, Block* block) {
  std::vector<StreamState*> users = std::exchange(block->users, {});
  // One more use during this function, so that no other thread frees the block.
  block->pending_uses = 1;
  for (StreamState* user : users) {
    if (user->idle()) continue;
    lock.unlock();
    StreamMarker marker(*user);
    lock.lock();
    ++block->pending_uses;
    ++pending_uses_;
    auto entry = std::find_if(pending_.begin(), pending_.end(),
                              [&](const PendingStream& other) { return other.stream == user; });
    if (entry == pending_.end()) {
      pending_.push_back({user, {}});
      entry = std::prev(pending_.end());
    }
    entry->uses.push_back({block, std::move(marker)});
  }
  if (--block->pending_uses == 0) put_back(block);
}

// Frees pending blocks whose uses have passed, or with `wait` all. Releases the lock meanwhile.
void DeviceCache::reclaim(Lock& lock, bool wait) {
  ++in_flight_;
  // By index: other threads may add streams while the lock is released.
  for (size_t i = 0; i < pending_.size(); ++i) {
    while (!pending_[i].uses.empty()) {
      std::optional<PendingUse> use = std::move(pending_[i].uses.front());
      pending_[i].uses.pop_front();
      lock.unlock();
      const bool passed = wait ? use->marker.wait() : use->marker.has_passed();
      Block* block = use->block;
      if (passed) use.reset();
      lock.lock();
      if (!passed) {
        pending_[i].uses.push_front(std::move(*use));
        break;
      }
      --pending_uses_;
      if (--block->pending_uses == 0) put_back(block);
    }
  }
  merge_last();
  if (--in_flight_ == 0) settled_.notify_all();
}

// ---- Private pools ----

PoolSet& DeviceCache::pools_of_this_thread() {
  if (captures_.empty()) return default_pools_;
  const std::thread::id thread = std::this_thread::get_id();
  for (auto capture = captures_.rbegin(); capture != captures_.rend(); ++capture) {
    if (capture->thread == thread) return *capture->pools;
  }
  return default_pools_;
}

PoolSet* DeviceCache::private_pools(c10::MempoolId_t pool) {
  auto found = private_pools_.find(pool);
  return found == private_pools_.end() ? nullptr : found->second.get();
}

void DeviceCache::begin_allocate_to_pool(c10::MempoolId_t pool) {
  TORCH_CHECK_VALUE(
      pool != c10::MempoolId_t(0, 0),
      "pool (0, 0) is the default one, where allocations go anyway; make a private pool first");
  Lock lock(mutex_);
  for (const Capture& capture : captures_) {
    TORCH_CHECK(capture.pools->id != pool, "memory pool (", pool.first, ", ", pool.second,
                ") is in use already; end that use before beginning another one");
  }
  auto& pools = private_pools_[pool];
  if (pools == nullptr) pools = std::make_unique<PoolSet>(pool);
  ++pools->uses;
  ++pools->holds;
  captures_.push_back({pools.get(), std::this_thread::get_id()});
}

void DeviceCache::end_allocate_to_pool(c10::MempoolId_t pool) {
  Lock lock(mutex_);
  auto capture = std::find_if(captures_.begin(), captures_.end(),
                              [&](const Capture& other) { return other.pools->id == pool; });
  TORCH_CHECK(capture != captures_.end(), "memory pool (", pool.first, ", ", pool.second,
              ") is not in use; begin before you end");
  --capture->pools->holds;
  captures_.erase(capture);
  erase_unused_private_pools();
  if (!captures_.empty()) return;
  for (Block* block : std::exchange(blocks_to_mark_, {})) mark_uses(lock, block);
}

void DeviceCache::release_pool(c10::MempoolId_t pool) {
  Lock lock(mutex_);
  PoolSet* pools = private_pools(pool);
  TORCH_CHECK(pools != nullptr && pools->uses > 0, "memory pool (", pool.first, ", ", pool.second,
              ") is not held on this device, so it cannot be released");
  --pools->uses;
  erase_unused_private_pools();
}

void DeviceCache::erase_unused_private_pools() {
  for (auto it = private_pools_.begin(); it != private_pools_.end();) {
    const PoolSet& pools = *it->second;
    const bool unused = pools.uses == 0 && pools.holds == 0 && pools.segments == 0;
    it = unused ? private_pools_.erase(it) : std::next(it);
  }
}

// ---- Statistics ----

void DeviceCache::set_fraction(double fraction) {
  TORCH_CHECK_VALUE(fraction >= 0.0 && fraction <= 1.0, "the memory fraction lies in [0, 1], and ",
                    fraction, " was given");
  Lock lock(mutex_);
  fraction_ = fraction;
  limit_ = fraction == 1.0 ? SIZE_MAX
                           : static_cast<size_t>(fraction * static_cast<double>(total_memory_));
}

void DeviceCache::account_adopted(int64_t bytes) {
  Lock lock(mutex_);
  if (bytes > 0) statistics_.add_adopted(static_cast<size_t>(bytes));
  if (bytes < 0) statistics_.remove_adopted(static_cast<size_t>(-bytes));
}

c10::CachingDeviceAllocator::DeviceStats DeviceCache::statistics() {
  Lock lock(mutex_);
  merge_last();
  return statistics_.get();
}

std::pair<size_t, size_t> DeviceCache::totals() {
  Lock lock(mutex_);
  return {static_cast<size_t>(statistics_.allocated_bytes()),
          static_cast<size_t>(statistics_.reserved_bytes())};
}

}  // namespace outboard
