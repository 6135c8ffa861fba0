#include "runtime/hooks.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/generator.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/memory/pinned_memory.h"
#include "runtime/streams/event.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/wait.h"
#include "torch_version.h"

namespace outboard {
namespace {

std::atomic<ResizeStorage> g_resize_storage{nullptr};
std::atomic<bool> g_registered{false};

// What PyTorch asks of an accelerator.
struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  // Never loads the driver: called for each device type before the first backward pass.
  bool hasPrimaryContext(c10::DeviceIndex device) const override {
    return driver_initialized() && !in_bad_fork() && device < device_count();
  }
  void init() const override { device_count_or_throw(); }

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    check_device_index(device);
    set_device(device);
  }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return exchange_device(device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchange_device(device);
  }

  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  at::Device getDeviceFromPtr(void* data) const override {
    check_fork();
    const c10::DeviceIndex device = caching_allocator()->device_of_pointer(data);
    TORCH_CHECK(device >= 0, "the pointer ", data,
                " does not lie in memory of this backend's allocator");
    return device_of(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return make_generator(device);
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    ResizeStorage resize = g_resize_storage.load();
    TORCH_INTERNAL_ASSERT(resize != nullptr);
    resize(storage.unsafeGetStorageImpl(), bytes);
  }
};

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

Event& event_of(void* event) { return *static_cast<Event*>(event); }

// How PyTorch switches devices and streams and uses our events.
struct Guard final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }

  // ---- Devices ----

  c10::Device exchangeDevice(c10::Device device) const override {
    TORCH_INTERNAL_ASSERT(device.type() == kType);
    return device_of(exchange_device(device.index()));
  }
  c10::Device getDevice() const override { return device_of(current_device()); }
  void setDevice(c10::Device device) const override {
    TORCH_INTERNAL_ASSERT(device.type() == kType);
    if (device.index() >= 0) set_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    try {
      setDevice(device);
    } catch (const std::exception&) {
      // The end of a guard cannot throw; the device was valid at its beginning.
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    // Every dtype can be stored, copied and computed on, if need be by CPU kernels.
    check_device_index(device.has_index() ? device.index() : current_device());
    return c10::DeviceCapability();
  }

  // ---- Streams ----

  c10::Stream getStream(c10::Device device) const override { return current_stream(index(device)); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return default_stream(index(device));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return stream_from_pool(index(device), high_priority ? INT32_MIN : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return stream_from_pool(index(device), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  bool queryStream(const c10::Stream& stream) const override { return query_stream(stream); }
  void synchronizeStream(const c10::Stream& stream) const override {
    const RequestedWait wait("Stream.synchronize");
    synchronize_stream(stream);
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    const RequestedWait wait("synchronize");
    synchronize_device(device >= 0 ? device : current_device());
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    void* handle = nullptr;
    OB_CALL(queue_native_handle, stream_state(stream).queue, &handle);
    return handle;
  }
#if OUTBOARD_TORCH_AT_LEAST(12)
  bool isStreamCapturing(const c10::Stream& stream) const override {
    return stream_state(stream).capturing.load(std::memory_order_acquire);
  }
#endif

  // ---- Events ----

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "an event of ", device_of(device),
                " cannot be recorded on a stream of ", stream.device(),
                "; make one event per device");
    if (*event == nullptr) *event = new Event(flag == c10::EventFlag::BACKEND_DEFAULT);
    event_of(*event).record(stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) event_of(event).block(stream);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || event_of(event).query();
  }
  void synchronizeEvent(void* event) const override {
    const RequestedWait wait("Event.synchronize");
    if (event != nullptr) event_of(event).synchronize();
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "elapsed_time needs two events that have been recorded; record them first");
    return event_of(start).elapsed_time(event_of(end));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }

  // ---- Memory ----

  void recordDataPtrOnStream(const c10::DataPtr& pointer,
                             const c10::Stream& stream) const override {
    caching_allocator()->recordStream(pointer, stream);
  }

 private:
  static c10::DeviceIndex index(c10::Device device) {
    return device.has_index() ? device.index() : current_device();
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace

void register_hooks() {
  if (g_registered.exchange(true)) return;
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

void set_resize_storage(ResizeStorage function) noexcept { g_resize_storage.store(function); }

}  // namespace outboard
