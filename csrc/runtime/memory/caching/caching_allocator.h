// The caching device allocator: any driver's `allocate` becomes cheap, stream-ordered memory.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <vector>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// Every function but allocated memory's deleter raises in a forked child of a process that used the
// driver; the deleter then does nothing.
class OUTBOARD_API CachingAllocator : public c10::DeviceAllocator {
 public:
  // Memory of the current device on its current stream.
  c10::DataPtr allocate(size_t bytes) override = 0;
  // Memory of `state`'s device on `state`'s stream.
  virtual c10::DataPtr allocate_on(StreamState& state, size_t bytes) = 0;

  // The same without an owner: memory that is given back by its address. `bytes` > 0.
  virtual void* allocate_addressed(StreamState& state, size_t bytes) = 0;
  // Gives back what allocate_addressed returned; false if `pointer` is not memory of ours. Never
  // waits and never throws; safe in a forked child, where memory of ours is left alone.
  virtual bool free_addressed(void* pointer) noexcept = 0;

  // An owner for what allocate_addressed returned, if this was the thread's latest such call; else
  // a null pointer, and the memory still has to be given back by its address.
  virtual c10::DataPtr own_addressed(void* pointer) noexcept = 0;

  // Whether `pointer` owns memory that allocate or allocate_on returned.
  virtual bool owns(const c10::DataPtr& pointer) noexcept = 0;

  // The same memory under an owner that knows no more than its address, as copy-on-write storages
  // need it; what is not memory of ours comes back as it is.
  virtual c10::DataPtr with_address_as_owner(c10::DataPtr pointer) = 0;

  // Private pools, for graphs: between begin and end, allocations of this thread on `device` come
  // from the pool. Each begin is matched by a release; once there are as many releases as begins,
  // the pool's memory goes back to the driver with the next emptyCache.
  virtual c10::MempoolId_t create_pool() = 0;
  virtual void begin_allocate_to_pool(c10::DeviceIndex device, c10::MempoolId_t pool) = 0;
  virtual void end_allocate_to_pool(c10::DeviceIndex device, c10::MempoolId_t pool) = 0;
  virtual void release_pool(c10::DeviceIndex device, c10::MempoolId_t pool) = 0;

  // Start of the driver's allocation that holds `pointer` (many tensors may lie in one), and its
  // size in *bytes; nullptr if `pointer` is not ours.
  virtual void* base_allocation(const void* pointer, size_t* bytes) = 0;
  // Device of the segment that holds `pointer`, or -1. Initializes nothing.
  virtual c10::DeviceIndex device_of_pointer(const void* pointer) = 0;

  // Gives all memory of a device back that nothing uses, also where waiting for it fails. Returns
  // the bytes that tensors hold, adopted memory included, and those that are still reserved.
  virtual std::pair<size_t, size_t> give_back(c10::DeviceIndex device) = 0;

  // Limits this process to a fraction, in [0, 1], of the device's memory. What it has already
  // stays.
  virtual void set_memory_fraction(double fraction, c10::DeviceIndex device) = 0;
  virtual double memory_fraction(c10::DeviceIndex device) = 0;

  // Segments and their blocks on all devices: of one private pool, or of all pools with {0, 0}.
  virtual std::vector<c10::CachingDeviceAllocator::SegmentInfo> snapshot(c10::MempoolId_t pool = {
                                                                             0, 0}) = 0;

  // Memory that host kernels made and the device adopted, for the statistics; negative when it is
  // gone, with the same size.
  virtual void account_adopted(c10::DeviceIndex device, int64_t bytes) noexcept = 0;
};

// The one instance, registered as PyTorch's allocator for PrivateUse1. Never destroyed.
OUTBOARD_API CachingAllocator* caching_allocator();

}  // namespace outboard
