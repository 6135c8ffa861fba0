#include "runtime/hooks.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <atomic>

#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
#include "runtime/generator.h"
#include "runtime/memory/pinned_allocator.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

std::atomic<ResizeStorage> g_resize_storage{nullptr};
std::atomic<bool> g_registered{false};

struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  // Never probes: asked for each device type before the first backward pass.
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

}  // namespace

void register_hooks() {
  if (g_registered.exchange(true)) return;
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

void set_resize_storage(ResizeStorage function) noexcept { g_resize_storage.store(function); }

}  // namespace outboard
