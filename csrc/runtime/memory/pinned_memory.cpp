#include "runtime/memory/pinned_memory.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/memory/address_registry.h"
#include "runtime/streams/event.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

int64_t microseconds_since(uint64_t nanoseconds) {
  return static_cast<int64_t>((host_nanoseconds() - nanoseconds) / 1000);
}

// PyTorch's template caches blocks in pools by size and calls the virtual functions at the end. It
// calls free_block with locks held: free_released frees the memory afterwards.
class PinnedCache final : public at::CachingHostAllocatorImpl<c10::Stream, StreamMarker> {
 public:
  std::pair<void*, void*> allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr};
    check_fork();
    return CachingHostAllocatorImpl::allocate(bytes);
  }

  void free(void* context) override {
    if (usable_driver() == nullptr) return;
    CachingHostAllocatorImpl::free(context);
    free_released();
  }

  bool record_event(void* pointer, void* context, c10::Stream stream) override {
    check_fork();
    return CachingHostAllocatorImpl::record_event(pointer, context, stream);
  }

  void empty_cache() override {
    check_fork();
    CachingHostAllocatorImpl::empty_cache();
    free_released();
  }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    std::memcpy(destination, source, bytes);
  }

 private:
  void allocate_host_memory(size_t bytes, void** pointer) override {
    const uint64_t start = host_nanoseconds();
    ob_status status = outboard::allocate_host_memory(driver(), bytes, pointer);
    if (status == OB_OUT_OF_MEMORY) {
      empty_cache();
      status = outboard::allocate_host_memory(driver(), bytes, pointer);
    }
    check_status(status, "host_allocate");
    add_allocation(AddressSpace::kHost, {.address = as_address(*pointer), .bytes = bytes});
    std::lock_guard<std::mutex> lock(stats_.timing_mutex_);
    stats_.host_alloc_time.increase(microseconds_since(start));
  }

  void free_block(at::HostBlock<c10::Stream>* block) override {
    std::lock_guard<std::mutex> lock(released_mutex_);
    released_.push_back(block->ptr_);
  }

  void free_released() {
    std::vector<void*> pointers;
    {
      std::lock_guard<std::mutex> lock(released_mutex_);
      pointers.swap(released_);
    }
    for (void* pointer : pointers) {
      remove_allocation(AddressSpace::kHost, as_address(pointer));
      const uint64_t start = host_nanoseconds();
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

  // Without `override`: not every supported version of PyTorch has them.
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
  return !in_bad_fork() && find_allocation(AddressSpace::kHost, as_address(pointer));
}

bool register_host_memory(const c10::Storage& storage) {
  check_fork();
  TORCH_CHECK_VALUE(storage.device_type() == c10::DeviceType::CPU,
                    "only host memory can be registered, and a tensor on ", storage.device(),
                    " was given; register a CPU tensor");
  TORCH_CHECK_VALUE(storage.nbytes() > 0, "an empty tensor has no memory to be registered");
  TORCH_CHECK_VALUE(!is_pinned(storage.data()), "this memory is pinned or registered already");
  const ob_driver& table = driver();
  if (table.host_register == nullptr) return false;
  // PyTorch asks for pinned memory only after this.
  at::globalContext().lazyInitDevice(c10::DeviceType::PrivateUse1);
  void* pointer = storage.mutable_data();
  const bool added = add_allocation(
      AddressSpace::kHost,
      {.address = as_address(pointer), .bytes = storage.nbytes(), .storage = storage});
  TORCH_CHECK_VALUE(added, "this memory is registered already");
  const ob_status status = table.host_register(table.context, pointer, storage.nbytes());
  if (status != OB_OK) remove_allocation(AddressSpace::kHost, as_address(pointer));
  if (status == OB_UNSUPPORTED) return false;
  check_status(status, "host_register");
  return true;
}

void unregister_host_memory(const c10::Storage& storage) {
  check_fork();
  TORCH_CHECK_VALUE(is_registered(storage.data()),
                    "this memory was not registered; call register_host_memory first");
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) synchronize_device(device);
  const auto removed = remove_allocation(AddressSpace::kHost, as_address(storage.data()));
  TORCH_CHECK_VALUE(removed.has_value(), "this memory was not registered");
  OB_CALL(host_unregister, removed->storage.mutable_data());
}

bool is_registered(const void* pointer) noexcept {
  if (in_bad_fork()) return false;
  const auto found = find_allocation(AddressSpace::kHost, as_address(pointer));
  return found.has_value() && found->storage;
}

}  // namespace outboard
