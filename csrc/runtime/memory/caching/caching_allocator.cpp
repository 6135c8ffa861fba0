#include "runtime/memory/caching/caching_allocator.h"

#include <algorithm>
#include <optional>

#include "runtime/driver/driver_table.h"
#include "runtime/memory/address_registry.h"
#include "runtime/memory/caching/device_cache.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/recording/recording.h"

namespace outboard {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::SegmentInfo;

void* as_pointer(ob_address address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

std::optional<Allocation> find_segment(const void* pointer) {
  return find_allocation(AddressSpace::kDevice, as_address(pointer));
}

// `bytes` is negative for freed memory.
void report_to_profiler(DeviceCache& cache, void* pointer, int64_t bytes) {
  if (!c10::memoryProfilingEnabled()) return;
  const auto [allocated, reserved] = cache.totals();
  c10::reportMemoryUsageToProfiler(pointer, bytes, allocated, reserved, device_of(cache.device()));
}

void free_block(Block* block) noexcept {
  DeviceCache& cache = *block->segment->cache;
  void* pointer = as_pointer(block->address);
  const int64_t bytes = static_cast<int64_t>(block->size);
  if (C10_UNLIKELY(records_memory_history() || block->context != nullptr)) cache.note_free(*block);
  cache.free(block);
  report_to_profiler(cache, pointer, -bytes);
}

// The allocation while history is recorded.
C10_NOINLINE Block* allocate_and_note(DeviceCache& cache, StreamState& state, size_t bytes,
                                      bool addressed) {
  MemoryContext context = gather_memory_context(MemoryAction::kAlloc);
  Block* block = cache.allocate(state, bytes, addressed);
  cache.note_allocation(*block, std::move(context));
  return block;
}

// The deleter of DataPtrs whose context is the block.
void delete_block(void* context) {
  if (usable_driver() == nullptr) return;
  free_block(static_cast<Block*>(context));
}

void delete_address(void* pointer) { caching_allocator()->free_addressed(pointer); }

// The block of this thread's latest allocate_addressed. It may be freed.
thread_local Block* t_latest_addressed = nullptr;

}  // namespace

c10::DataPtr CachingAllocator::allocate(size_t bytes) {
  return allocate_on(current_stream_state(current_device()), bytes);
}

c10::DataPtr CachingAllocator::allocate_on(StreamState& state, size_t bytes) {
  const c10::Device device = device_of(state.device);
  if (bytes == 0) return {nullptr, device};
  Block* block = allocate_block(state, bytes, /*addressed=*/false);
  return {as_pointer(block->address), block, &delete_block, device};
}

void* CachingAllocator::allocate_addressed(StreamState& state, size_t bytes) {
  Block* block = allocate_block(state, bytes, /*addressed=*/true);
  t_latest_addressed = block;
  return as_pointer(block->address);
}

c10::DataPtr CachingAllocator::own_addressed(void* pointer) noexcept {
  // Blocks are recycled but never deleted. Of all blocks with this address only the one in use is
  // addressed.
  Block* block = t_latest_addressed;
  if (block == nullptr || !block->addressed || block->address != as_address(pointer)) return {};
  return {pointer, block, &delete_block, device_of(block->segment->cache->device())};
}

bool CachingAllocator::owns(const c10::DataPtr& pointer) noexcept {
  return pointer.get_deleter() == &delete_block;
}

c10::DataPtr CachingAllocator::with_address_as_owner(c10::DataPtr pointer) {
  if (pointer.get_deleter() != &delete_block) return pointer;
  auto* block = static_cast<Block*>(pointer.get_context());
  block->segment->cache->make_addressed(block);
  void* address = pointer.get();
  const c10::Device device = pointer.device();
  pointer.release_context();
  return {address, address, &delete_address, device};
}

bool CachingAllocator::free_addressed(void* pointer) noexcept {
  const auto found = find_segment(pointer);
  if (!found) return false;
  if (usable_driver() == nullptr) return true;
  Block* block = found->segment->cache->find_addressed(*found->segment, as_address(pointer));
  if (block != nullptr) free_block(block);
  return true;
}

void CachingAllocator::copy_data(void* destination, const void* source, std::size_t bytes) const {
  if (bytes == 0) return;
  check_fork();
  const auto found = find_segment(destination);
  TORCH_CHECK(found.has_value(), "the memory to copy to does not belong to this allocator");
  StreamState& state = current_stream_state(found->device);
  RecordedCopy record(state, state.device, state.device, bytes);
  OB_CALL(copy_device_to_device, state.queue, as_address(destination), as_address(source), bytes);
  state.mark_submitted();
  record.enqueued();
  // A copy-on-write storage gets its own memory here. A CPU kernel may have synchronized the stream
  // already, and other owners may write to the old memory afterwards.
  if (!state.capturing.load(std::memory_order_acquire)) synchronize_stream(state);
}

bool CachingAllocator::initialized() { return driver_initialized(); }

void CachingAllocator::emptyCache(c10::MempoolId_t pool) {
  check_fork();
  for (auto& entry : caches_) {
    if (DeviceCache* cache = entry.load(std::memory_order_acquire)) cache->empty(pool);
  }
}

std::pair<size_t, size_t> CachingAllocator::release_all(c10::DeviceIndex device) {
  DeviceCache& its = cache(device);
  try {
    its.empty({0, 0});
  } catch (const c10::AcceleratorError&) {
    // An error of the work, or a lost device. The memory is freed all the same.
  }
  return {its.totals().first, its.reserved()};
}

void CachingAllocator::recordStream(const c10::DataPtr& pointer, c10::Stream stream) {
  if (pointer.get() == nullptr) return;
  check_fork();
  Block* block = nullptr;
  if (pointer.get_deleter() == &delete_block) {
    block = static_cast<Block*>(pointer.get_context());
  } else if (const auto found = find_segment(pointer.get())) {
    // A block with another owner around it, such as a copy-on-write storage.
    block = found->segment->cache->find_block(*found->segment, as_address(pointer.get()));
  }
  StreamState& state = stream_state(stream);
  if (block != nullptr) {
    block->segment->cache->record_stream(block, state);
  } else {
    record_adopted_use(pointer, state);
  }
}

DeviceStats CachingAllocator::getDeviceStats(c10::DeviceIndex device) {
  return cache(device).statistics();
}

void CachingAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  cache(device).reset_accumulated_statistics();
}

void CachingAllocator::resetPeakStats(c10::DeviceIndex device) {
  cache(device).reset_peak_statistics();
}

std::pair<size_t, size_t> CachingAllocator::getMemoryInfo(c10::DeviceIndex device) {
  const uint64_t ours = cache(device).reserved();
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  OB_CALL(memory_info, device, &free_bytes, &total_bytes);
  // A driver that cannot tell reports all memory as free.
  return {std::min(free_bytes, total_bytes - std::min(total_bytes, ours)), total_bytes};
}

DeviceCache& CachingAllocator::cache(c10::DeviceIndex device) {
  check_fork();
  return cache_of(device);
}

c10::MempoolId_t CachingAllocator::create_pool() {
  return {0, next_pool_.fetch_add(1, std::memory_order_relaxed)};
}

c10::DeviceIndex CachingAllocator::device_of_pointer(const void* pointer) {
  const auto found = find_segment(pointer);
  return found ? found->device : c10::DeviceIndex{-1};
}

std::vector<SegmentInfo> CachingAllocator::snapshot(c10::MempoolId_t pool) {
  check_fork();
  std::vector<SegmentInfo> segments;
  for (auto& entry : caches_) {
    DeviceCache* cache = entry.load(std::memory_order_acquire);
    if (cache == nullptr) continue;
    cache->append_snapshot(pool, segments);
    if (!records_memory_history()) continue;
    note_memory_event(MemoryAction::kSnapshot, cache->device(), 0, 0, nullptr, pool);
  }
  return segments;
}

void CachingAllocator::account_adopted(c10::DeviceIndex device, int64_t bytes) noexcept {
  if (usable_driver() == nullptr) return;
  try {
    cache_of(device).account_adopted(bytes);
  } catch (const c10::Error&) {
    // The device does not exist.
  }
}

Block* CachingAllocator::allocate_block(StreamState& state, size_t bytes, bool addressed) {
  driver();  // raises in a forked child and after finalize_driver()
  DeviceCache& cache = cache_of(state.device);
  Block* block = C10_LIKELY(!records_memory_history())
                     ? cache.allocate(state, bytes, addressed)
                     : allocate_and_note(cache, state, bytes, addressed);
  report_to_profiler(cache, as_pointer(block->address), static_cast<int64_t>(block->size));
  return block;
}

DeviceCache& CachingAllocator::cache_of(c10::DeviceIndex device) {
  if (device >= 0 && device < kMaxDevices) {
    DeviceCache* cache = caches_[device].load(std::memory_order_acquire);
    if (C10_LIKELY(cache != nullptr)) return *cache;
  }
  check_device_index(device);
  // Without a lock, since the driver is asked for properties. The first thread's cache is used.
  auto* made = new DeviceCache(device, driver());
  DeviceCache* expected = nullptr;
  if (caches_[device].compare_exchange_strong(expected, made)) return *made;
  delete made;
  return *expected;
}

CachingAllocator* caching_allocator() {
  static auto* instance = new CachingAllocator();
  return instance;
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, caching_allocator());

}  // namespace outboard
