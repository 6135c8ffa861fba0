#include "runtime/memory/pinned_allocator.h"

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "runtime/driver/driver_requests.h"
#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
#include "runtime/memory/registered_memory.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/stream_marker.h"

namespace outboard {
namespace {

using PinnedBlock = at::HostBlock<c10::Stream>;

// Where pinned memory lies. Apart from the allocator, so that is_pinned needs only this.
struct PinnedRanges {
  std::shared_mutex mutex;
  std::map<uintptr_t, size_t> sizes;
};

PinnedRanges& pinned_ranges() {
  static auto* ranges = new PinnedRanges();
  return *ranges;
}

int64_t microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                               start)
      .count();
}

// PyTorch's template keeps blocks in pools by size and asks for the functions at the end. It calls
// free_block while it holds locks: the driver gets the memory back after that.
class PinnedCache final
    : public at::CachingHostAllocatorImpl<c10::Stream, StreamMarker, PinnedBlock> {
 public:
  std::pair<void*, void*> allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr};
    check_fork();
    return CachingHostAllocatorImpl::allocate(bytes);
  }

  void free(void* context) override {
    if (in_bad_fork() || driver_finalized()) return;
    CachingHostAllocatorImpl::free(context);
    give_back();
  }

  bool record_event(void* pointer, void* context, c10::Stream stream) override {
    check_fork();
    return CachingHostAllocatorImpl::record_event(pointer, context, stream);
  }

  void empty_cache() override {
    check_fork();
    CachingHostAllocatorImpl::empty_cache();
    give_back();
  }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    std::memcpy(destination, source, bytes);
  }

 private:
  void allocate_host_memory(size_t bytes, void** pointer) override {
    const auto start = std::chrono::steady_clock::now();
    ob_status status = outboard::allocate_host_memory(driver(), bytes, pointer);
    if (status == OB_OUT_OF_MEMORY) {
      empty_cache();
      status = outboard::allocate_host_memory(driver(), bytes, pointer);
    }
    check_status(status, "host_allocate");
    {
      PinnedRanges& ranges = pinned_ranges();
      std::unique_lock<std::shared_mutex> lock(ranges.mutex);
      ranges.sizes[reinterpret_cast<uintptr_t>(*pointer)] = bytes;
    }
    std::lock_guard<std::mutex> lock(stats_.timing_mutex_);
    stats_.host_alloc_time.increase(microseconds_since(start));
  }

  void free_block(PinnedBlock* block) override {
    std::lock_guard<std::mutex> lock(released_mutex_);
    released_.push_back(block->ptr_);
  }

  void give_back() {
    std::vector<void*> pointers;
    {
      std::lock_guard<std::mutex> lock(released_mutex_);
      pointers.swap(released_);
    }
    for (void* pointer : pointers) {
      {
        PinnedRanges& ranges = pinned_ranges();
        std::unique_lock<std::shared_mutex> lock(ranges.mutex);
        ranges.sizes.erase(reinterpret_cast<uintptr_t>(pointer));
      }
      const auto start = std::chrono::steady_clock::now();
      defer_status(OB_ASK(host_deallocate, pointer), "host_deallocate");
      std::lock_guard<std::mutex> lock(stats_.timing_mutex_);
      stats_.host_free_time.increase(microseconds_since(start));
    }
  }

  void record_stream(std::optional<std::vector<StreamMarker>>& markers,
                     c10::Stream stream) override {
    markers->emplace_back(stream_state(stream));
  }

  bool query_event(StreamMarker& marker) override { return marker.has_passed(); }

  // Not in the template of every supported version, hence not marked as overriding.
  virtual c10::Stream get_current_stream() const { return current_stream(current_device()); }
  virtual bool stream_is_capturing(c10::Stream stream) const { return false; }

  std::mutex released_mutex_;
  std::vector<void*> released_;
};

void delete_pinned(void* context);

using PinnedAllocator = at::CachingHostAllocatorInterface<PinnedCache, delete_pinned>;

PinnedAllocator* instance() {
  static auto* allocator = new PinnedAllocator();
  return allocator;
}

void delete_pinned(void* context) { instance()->free(context); }

REGISTER_HOST_ALLOCATOR(at::DeviceType::PrivateUse1, instance());

}  // namespace

at::HostAllocator* pinned_allocator() { return instance(); }

bool is_pinned(const void* pointer) {
  if (in_bad_fork()) return false;
  PinnedRanges& ranges = pinned_ranges();
  std::shared_lock<std::shared_mutex> lock(ranges.mutex);
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto after = ranges.sizes.upper_bound(address);
  if (after == ranges.sizes.begin()) return is_registered(pointer);
  --after;
  return address - after->first < after->second || is_registered(pointer);
}

}  // namespace outboard
