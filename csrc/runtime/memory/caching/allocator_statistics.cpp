#include "runtime/memory/caching/allocator_statistics.h"

#include <c10/core/AllocatorConfig.h>

namespace outboard {
namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::kSmallSize;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr StatArray DeviceStats::* kArrays[] = {
    &DeviceStats::allocation,      &DeviceStats::segment,
    &DeviceStats::active,          &DeviceStats::inactive_split,
    &DeviceStats::allocated_bytes, &DeviceStats::reserved_bytes,
    &DeviceStats::active_bytes,    &DeviceStats::inactive_split_bytes,
    &DeviceStats::requested_bytes,
};
constexpr Stat DeviceStats::* kOversize[] = {
    &DeviceStats::oversize_allocations,
    &DeviceStats::oversize_segments,
};

size_t kind(bool small) {
  return static_cast<size_t>(small ? StatType::SMALL_POOL : StatType::LARGE_POOL);
}

// Inlined: every allocation makes five of these.
__attribute__((always_inline)) inline void increase(StatArray& stat, bool small, size_t amount) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].increase(amount);
  stat[kind(small)].increase(amount);
}

__attribute__((always_inline)) inline void decrease(StatArray& stat, bool small, size_t amount) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].decrease(amount);
  stat[kind(small)].decrease(amount);
}

void change(StatArray& stat, bool small, int64_t amount) {
  if (amount > 0) increase(stat, small, static_cast<size_t>(amount));
  if (amount < 0) decrease(stat, small, static_cast<size_t>(-amount));
}

bool is_oversize(size_t bytes) { return bytes >= AcceleratorAllocatorConfig::max_split_size(); }

// nullptr if `pool` is the default one, or this version of PyTorch has no statistics of pools.
template <typename Stats>
StatArray* private_pool_bytes(Stats& stats, const c10::MempoolId_t& pool) {
  if constexpr (requires { stats.reserved_bytes_by_private_pools; }) {
    if (pool != c10::MempoolId_t{0, 0}) return &stats.reserved_bytes_by_private_pools[pool];
  }
  return nullptr;
}

template <typename Stats, typename Visitor>
void for_each_private_pool_stat(Stats& stats, Visitor visit) {
  if constexpr (requires { stats.reserved_bytes_by_private_pools; }) {
    for (auto& entry : stats.reserved_bytes_by_private_pools) {
      for (Stat& stat : entry.second) visit(stat);
    }
  }
}

template <typename Visitor>
void for_each_stat(DeviceStats& stats, Visitor visit) {
  for (auto array : kArrays) {
    for (Stat& stat : stats.*array) visit(stat);
  }
  for (auto stat : kOversize) visit(stats.*stat);
  for_each_private_pool_stat(stats, visit);
}

}  // namespace

void AllocatorStatistics::add_allocation(bool small, size_t bytes, size_t requested) {
  increase(stats_.allocation, small, 1);
  increase(stats_.allocated_bytes, small, bytes);
  increase(stats_.active, small, 1);
  increase(stats_.active_bytes, small, bytes);
  increase(stats_.requested_bytes, small, requested);
  if (!small && is_oversize(bytes)) stats_.oversize_allocations.increase(1);
}

void AllocatorStatistics::remove_allocation(bool small, size_t bytes) {
  decrease(stats_.allocation, small, 1);
  decrease(stats_.allocated_bytes, small, bytes);
  if (!small && is_oversize(bytes) && stats_.oversize_allocations.current > 0) {
    stats_.oversize_allocations.decrease(1);
  }
}

void AllocatorStatistics::remove_active(bool small, size_t bytes, size_t requested) {
  decrease(stats_.active, small, 1);
  decrease(stats_.active_bytes, small, bytes);
  decrease(stats_.requested_bytes, small, requested);
}

void AllocatorStatistics::change_inactive_split(bool small, int64_t blocks, int64_t bytes) {
  change(stats_.inactive_split, small, blocks);
  change(stats_.inactive_split_bytes, small, bytes);
}

void AllocatorStatistics::add_segment(bool small, size_t bytes, c10::MempoolId_t pool) {
  map_memory(small, bytes, pool, /*first=*/true);
  if (is_oversize(bytes)) stats_.oversize_segments.increase(1);
}

void AllocatorStatistics::remove_segment(bool small, size_t bytes, c10::MempoolId_t pool) {
  unmap_memory(small, bytes, pool, /*last=*/true);
  // The limit may have changed since the allocation.
  if (is_oversize(bytes) && stats_.oversize_segments.current > 0) {
    stats_.oversize_segments.decrease(1);
  }
}

void AllocatorStatistics::map_memory(bool small, size_t bytes, c10::MempoolId_t pool, bool first) {
  ++stats_.num_device_alloc;
  if (first) increase(stats_.segment, small, 1);
  increase(stats_.reserved_bytes, small, bytes);
  if (StatArray* stat = private_pool_bytes(stats_, pool)) increase(*stat, small, bytes);
}

void AllocatorStatistics::unmap_memory(bool small, size_t bytes, c10::MempoolId_t pool, bool last) {
  ++stats_.num_device_free;
  if (last) decrease(stats_.segment, small, 1);
  decrease(stats_.reserved_bytes, small, bytes);
  if (StatArray* stat = private_pool_bytes(stats_, pool)) decrease(*stat, small, bytes);
}

void AllocatorStatistics::add_adopted(size_t bytes) {
  const bool small = bytes <= kSmallSize;
  increase(stats_.segment, small, 1);
  increase(stats_.reserved_bytes, small, bytes);
  add_allocation(small, bytes, bytes);
}

void AllocatorStatistics::remove_adopted(size_t bytes) {
  const bool small = bytes <= kSmallSize;
  remove_active(small, bytes, bytes);
  remove_allocation(small, bytes);
  decrease(stats_.reserved_bytes, small, bytes);
  decrease(stats_.segment, small, 1);
}

void AllocatorStatistics::reset_accumulated() {
  for_each_stat(stats_, [](Stat& stat) { stat.reset_accumulated(); });
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = 0;
  stats_.num_device_free = 0;
}

void AllocatorStatistics::reset_peak() {
  for_each_stat(stats_, [](Stat& stat) { stat.reset_peak(); });
}

DeviceStats AllocatorStatistics::get() const {
  DeviceStats stats = stats_;
  stats.max_split_size = static_cast<int64_t>(AcceleratorAllocatorConfig::max_split_size());
  return stats;
}

}  // namespace outboard
