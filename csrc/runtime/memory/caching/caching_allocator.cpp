#include "runtime/memory/caching/caching_allocator.h"

#include <algorithm>
#include <atomic>

#include "runtime/memory/adopted_memory.h"
#include "runtime/memory/memory_history.h"
#include "runtime/driver/device.h"
#include "runtime/memory/caching/device_cache.h"
#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
#include "runtime/memory/caching/segment_registry.h"
#include "runtime/recording/recorded_copy.h"

namespace outboard {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::SegmentInfo;

void* as_pointer(ob_address address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

ob_address as_address(const void* pointer) {
  return static_cast<ob_address>(reinterpret_cast<uintptr_t>(pointer));
}

// `bytes` is negative for memory that was given back.
void report_to_profiler(DeviceCache& cache, void* pointer, int64_t bytes) {
  if (!c10::memoryProfilingEnabled()) return;
  const auto [allocated, reserved] = cache.totals();
  c10::reportMemoryUsageToProfiler(pointer, bytes, allocated, reserved, device_of(cache.device()));
}

void free_block(Block* block) noexcept {
  DeviceCache& cache = *block->segment->cache;
  void* pointer = as_pointer(block->address);
  const int64_t bytes = static_cast<int64_t>(block->size);
  if (C10_UNLIKELY(keeps_memory_history())) cache.note_free(*block);
  // Only who has the block changes it; snapshots read it.
  if (C10_UNLIKELY(block->context != nullptr)) cache.set_context(*block, nullptr);
  cache.free(block);
  report_to_profiler(cache, pointer, -bytes);
}

// While history is recorded.
C10_NOINLINE Block* allocate_and_note(DeviceCache& cache, StreamState& state, size_t bytes,
                                      bool addressed) {
  MemoryContext context = gather_memory_context(MemoryAction::kAlloc);
  Block* block = cache.allocate(state, bytes, addressed);
  cache.note_allocation(*block, context);
  if (context != nullptr) cache.set_context(*block, std::move(context));
  return block;
}

// The deleter of DataPtrs: their context is the block.
void delete_block(void* context) {
  if (in_bad_fork() || driver_finalized()) return;
  free_block(static_cast<Block*>(context));
}

void delete_address(void* pointer) { caching_allocator()->free_addressed(pointer); }

// What allocate_addressed gave to this thread last; it may have been given back since.
thread_local Block* t_latest_addressed = nullptr;

class Allocator final : public CachingAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    return allocate_on(current_stream_state(current_device()), bytes);
  }

  c10::DataPtr allocate_on(StreamState& state, size_t bytes) override {
    const c10::Device device = device_of(state.device);
    if (bytes == 0) return {nullptr, device};
    Block* block = allocate_block(state, bytes, /*addressed=*/false);
    return {as_pointer(block->address), block, &delete_block, device};
  }

  void* allocate_addressed(StreamState& state, size_t bytes) override {
    Block* block = allocate_block(state, bytes, /*addressed=*/true);
    t_latest_addressed = block;
    return as_pointer(block->address);
  }

  c10::DataPtr own_addressed(void* pointer) noexcept override {
    // Blocks are recycled but never deleted, and of all blocks only that of live memory has its
    // address and is addressed.
    Block* block = t_latest_addressed;
    if (block == nullptr || !block->addressed || block->address != as_address(pointer)) return {};
    return {pointer, block, &delete_block, device_of(block->segment->cache->device())};
  }

  bool owns(const c10::DataPtr& pointer) noexcept override {
    return pointer.get_deleter() == &delete_block;
  }

  c10::DataPtr with_address_as_owner(c10::DataPtr pointer) override {
    if (pointer.get_deleter() != &delete_block) return pointer;
    auto* block = static_cast<Block*>(pointer.get_context());
    block->segment->cache->make_addressed(block);
    void* address = pointer.get();
    const c10::Device device = pointer.device();
    pointer.release_context();
    return {address, address, &delete_address, device};
  }

  bool free_addressed(void* pointer) noexcept override {
    const auto range = find_segment(as_address(pointer));
    if (!range) return false;
    if (in_bad_fork() || driver_finalized()) return true;
    Block* block = range->segment->cache->find_addressed(*range->segment, as_address(pointer));
    if (block != nullptr) free_block(block);
    return true;
  }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    if (bytes == 0) return;
    check_fork();
    const auto range = find_segment(as_address(destination));
    TORCH_CHECK(range.has_value(), "the memory to copy to does not belong to this allocator");
    StreamState& state = current_stream_state(range->device);
    RecordedCopy record(state, state.device, state.device, bytes);
    OB_CALL(copy_device_to_device, state.queue, as_address(destination), as_address(source), bytes);
    state.mark_submitted();
    record.enqueued();
    // Called where a copy-on-write storage gets memory of its own: a host kernel may have
    // synchronized the stream already, and the old memory's other owners are free to write to it
    // afterwards.
    if (!state.capturing.load(std::memory_order_acquire)) synchronize_stream(state);
  }

  bool is_simple_data_ptr(const c10::DataPtr& pointer) const override {
    return pointer.get() == pointer.get_context();
  }

  bool initialized() override { return driver_initialized(); }

  void emptyCache(c10::MempoolId_t pool) override {
    check_fork();
    for_each_cache([&](DeviceCache& cache) { cache.empty(pool); });
  }

  std::pair<size_t, size_t> give_back(c10::DeviceIndex device) override {
    DeviceCache* cache = checked_cache(device);
    if (cache == nullptr) return {0, 0};
    try {
      cache->empty({0, 0});
    } catch (const c10::AcceleratorError&) {
      // Work failed, or the device is lost. Either way the memory went back.
    }
    return {cache->totals().first, cache->reserved()};
  }

  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    if (pointer.get() == nullptr) return;
    check_fork();
    Block* block = nullptr;
    if (pointer.get_deleter() == &delete_block) {
      block = static_cast<Block*>(pointer.get_context());
    } else if (const auto range = find_segment(as_address(pointer.get()))) {
      // Memory of ours with an owner around it, for example of a copy-on-write storage.
      block = range->segment->cache->find_block(*range->segment, as_address(pointer.get()));
    }
    StreamState& state = stream_state(stream);
    if (block != nullptr) {
      block->segment->cache->record_stream(block, state);
    } else {
      record_adopted_use(pointer, state);
    }
  }

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    DeviceCache* cache = checked_cache(device);
    return cache != nullptr ? cache->statistics() : AllocatorStatistics().get();
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    if (DeviceCache* cache = checked_cache(device)) cache->reset_accumulated_statistics();
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    if (DeviceCache* cache = checked_cache(device)) cache->reset_peak_statistics();
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    check_fork();
    check_device_index(device);
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    OB_CALL(memory_info, device, &free_bytes, &total_bytes);
    // A driver that does not know says that all is free.
    const uint64_t ours = cache_of(device).reserved();
    return {std::min(free_bytes, total_bytes - std::min(total_bytes, ours)), total_bytes};
  }

  c10::MempoolId_t create_pool() override {
    return {0, next_pool_.fetch_add(1, std::memory_order_relaxed)};
  }

  void begin_allocate_to_pool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    check_fork();
    cache_of(device).begin_allocate_to_pool(pool);
  }

  void end_allocate_to_pool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    check_fork();
    cache_of(device).end_allocate_to_pool(pool);
  }

  void release_pool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    check_fork();
    cache_of(device).release_pool(pool);
  }

  void* base_allocation(const void* pointer, size_t* bytes) override {
    const auto range = find_segment(as_address(pointer));
    if (!range) return nullptr;
    if (bytes != nullptr) *bytes = range->size;
    return as_pointer(range->address);
  }

  c10::DeviceIndex device_of_pointer(const void* pointer) override {
    const auto range = find_segment(as_address(pointer));
    return range ? range->device : c10::DeviceIndex{-1};
  }

  void set_memory_fraction(double fraction, c10::DeviceIndex device) override {
    check_fork();
    TORCH_CHECK_VALUE(fraction >= 0.0 && fraction <= 1.0,
                      "the memory fraction lies in [0, 1], and ", fraction, " was given");
    cache_of(device).set_fraction(fraction);
  }

  double memory_fraction(c10::DeviceIndex device) override {
    check_fork();
    return cache_of(device).fraction();
  }

  std::vector<SegmentInfo> snapshot(c10::MempoolId_t pool) override {
    check_fork();
    std::vector<SegmentInfo> segments;
    for_each_cache([&](DeviceCache& cache) {
      cache.append_snapshot(pool, segments);
      if (!keeps_memory_history()) return;
      note_memory_event(MemoryAction::kSnapshot, cache.device(), 0, 0, nullptr, pool);
    });
    return segments;
  }

  void account_adopted(c10::DeviceIndex device, int64_t bytes) noexcept override {
    if (in_bad_fork() || driver_finalized()) return;
    try {
      cache_of(device).account_adopted(bytes);
    } catch (const c10::Error&) {
      // Statistics of a device that does not exist: nothing to count.
    }
  }

 private:
  Block* allocate_block(StreamState& state, size_t bytes, bool addressed) {
    // Raises in a forked child, and once the driver has ended.
    driver();
    DeviceCache& cache = cache_of(state.device);
    Block* block = C10_LIKELY(!keeps_memory_history())
                       ? cache.allocate(state, bytes, addressed)
                       : allocate_and_note(cache, state, bytes, addressed);
    report_to_profiler(cache, as_pointer(block->address), static_cast<int64_t>(block->size));
    return block;
  }

  DeviceCache& cache_of(c10::DeviceIndex device) {
    if (device >= 0 && device < kMaxDevices) {
      DeviceCache* cache = caches_[device].load(std::memory_order_acquire);
      if (C10_LIKELY(cache != nullptr)) return *cache;
    }
    check_device_index(device);
    // Made before anything is visible to others, as a driver must not be asked under a lock.
    auto* made = new DeviceCache(device, driver());
    DeviceCache* expected = nullptr;
    if (caches_[device].compare_exchange_strong(expected, made)) return *made;
    delete made;
    return *expected;
  }

  // nullptr if nothing was allocated on the device yet.
  DeviceCache* checked_cache(c10::DeviceIndex device) {
    check_fork();
    check_device_index(device);
    return caches_[device].load(std::memory_order_acquire);
  }

  template <typename Visitor>
  void for_each_cache(Visitor visit) {
    for (auto& entry : caches_) {
      if (DeviceCache* cache = entry.load(std::memory_order_acquire)) visit(*cache);
    }
  }

  std::atomic<DeviceCache*> caches_[kMaxDevices] = {};
  std::atomic<c10::CaptureId_t> next_pool_{1};
};

}  // namespace

CachingAllocator* caching_allocator() {
  static auto* instance = new Allocator();
  return instance;
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, caching_allocator());

}  // namespace outboard
