// The caching device allocator: cheap, stream-ordered memory from any driver's `allocate`.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "runtime/driver/device.h"
#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

struct Block;
class DeviceCache;

// PyTorch's allocator for PrivateUse1. In a forked child of a process that used the driver deleters
// do nothing and every other function raises, except for those that are noexcept or look up an
// address.
class OUTBOARD_API CachingAllocator final : public c10::DeviceAllocator {
 public:
  // Memory of the current device on its current stream.
  c10::DataPtr allocate(size_t bytes) override;
  // Memory of `state`'s device on `state`'s stream.
  c10::DataPtr allocate_on(StreamState& state, size_t bytes);

  // Memory without an owner, freed by its address. `bytes` > 0.
  void* allocate_addressed(StreamState& state, size_t bytes);
  // Frees memory of allocate_addressed; false if `pointer` is not memory of this allocator. Never
  // waits. Safe in a forked child, which frees nothing.
  bool free_addressed(void* pointer) noexcept;
  // An owner for memory of allocate_addressed, if that was this thread's latest such call. Else a
  // null pointer, and the memory still has to be freed by its address.
  c10::DataPtr own_addressed(void* pointer) noexcept;
  // The same memory with an owner that holds its address alone, for copy-on-write storages. Other
  // memory is returned unchanged.
  c10::DataPtr with_address_as_owner(c10::DataPtr pointer);
  // Whether `pointer` owns memory of allocate or allocate_on.
  bool owns(const c10::DataPtr& pointer) noexcept;

  // The memory of one device, with its limit and private pools.
  DeviceCache& cache(c10::DeviceIndex device);
  // The id of a new private pool, of any device.
  c10::MempoolId_t create_pool();

  // Device of the allocation that contains `pointer`, or -1. Initializes nothing.
  c10::DeviceIndex device_of_pointer(const void* pointer);

  // Frees all unused memory of a device, also if waiting for it fails. Returns the bytes in use by
  // tensors, adopted memory included, and the bytes still reserved.
  std::pair<size_t, size_t> release_all(c10::DeviceIndex device);

  // Segments and their blocks on all devices: of one private pool, or of all pools with {0, 0}.
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> snapshot(c10::MempoolId_t pool = {0, 0});

  // Counts memory that CPU kernels made and the device adopted; negative when it is freed.
  void account_adopted(c10::DeviceIndex device, int64_t bytes) noexcept;

  // ---- The rest of PyTorch's interface ----

  void copy_data(void* destination, const void* source, std::size_t bytes) const override;
  bool is_simple_data_ptr(const c10::DataPtr& pointer) const override {
    return pointer.get() == pointer.get_context();
  }
  bool initialized() override;
  void emptyCache(c10::MempoolId_t pool = {0, 0}) override;
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;

 private:
  Block* allocate_block(StreamState& state, size_t bytes, bool addressed);
  DeviceCache& cache_of(c10::DeviceIndex device);

  std::array<std::atomic<DeviceCache*>, kMaxDevices> caches_ = {};
  std::atomic<c10::CaptureId_t> next_pool_{1};
};

// The one instance. Never destroyed.
OUTBOARD_API CachingAllocator* caching_allocator();

}  // namespace outboard
