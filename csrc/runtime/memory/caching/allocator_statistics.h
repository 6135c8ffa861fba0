// The statistics behind memory_stats() of a device. Guarded by the lock of the device's cache.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>

namespace outboard {

class AllocatorStatistics {
 public:
  // A tensor of `requested` bytes got a block of `bytes`.
  void add_allocation(bool small, size_t bytes, size_t requested);
  // A tensor freed its block.
  void remove_allocation(bool small, size_t bytes);
  // No stream uses the block any more.
  void remove_active(bool small, size_t bytes, size_t requested);
  // Changes of the free parts of split segments.
  void change_inactive_split(bool small, int64_t blocks, int64_t bytes);
  void add_segment(bool small, size_t bytes, c10::MempoolId_t pool);
  void remove_segment(bool small, size_t bytes, c10::MempoolId_t pool);
  // Memory of a growing segment, which counts as a segment from its first memory to its last.
  void map_memory(bool small, size_t bytes, c10::MempoolId_t pool, bool first);
  void unmap_memory(bool small, size_t bytes, c10::MempoolId_t pool, bool last);
  // Adopted memory, which the driver did not allocate: a segment, a block and an allocation at
  // once.
  void add_adopted(size_t bytes);
  void remove_adopted(size_t bytes);
  void count_retry() { ++stats_.num_alloc_retries; }
  void count_out_of_memory() { ++stats_.num_ooms; }
  void count_synchronization() { ++stats_.num_sync_all_streams; }

  void reset_accumulated();
  void reset_peak();

  int64_t allocated_bytes() const { return stats_.allocated_bytes[0].current; }
  int64_t reserved_bytes() const { return stats_.reserved_bytes[0].current; }
  c10::CachingDeviceAllocator::DeviceStats get() const;

 private:
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

}  // namespace outboard
