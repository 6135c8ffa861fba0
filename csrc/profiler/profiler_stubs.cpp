// Device times for `torch.autograd.profiler.profile(use_device=...)`, by events before and after
// each operator.
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <memory>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/streams/event.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

// Failed measurements are left out: a profiler must not make a program fail.
struct ProfilerEvents final : public torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
    if (usable_driver() == nullptr) return;
    const c10::DeviceIndex current = current_device();
    if (device != nullptr) *device = current;
    try {
      StreamState& stream = current_stream_state(current);
      // Events recorded into a graph have no time.
      if (stream.capturing.load(std::memory_order_acquire)) return;
      auto made = std::make_shared<Event>(/*timing=*/true);
      made->record(stream.stream());
      *event = std::move(made);
    } catch (const std::exception&) {
      event->reset();
    }
  }

  // Microseconds.
  float elapsed(const ProfilerVoidEventStub* begin,
                const ProfilerVoidEventStub* end) const override {
    if (*begin == nullptr || *end == nullptr) return 0;
    const auto& first = *static_cast<const Event*>(begin->get());
    const auto& last = *static_cast<const Event*>(end->get());
    try {
      first.synchronize();
      last.synchronize();
      return static_cast<float>(first.elapsed_time(last) * 1000);
    } catch (const std::exception&) {
      return 0;  // for example, events of two devices
    }
  }

  void onEachDevice(std::function<void(int)> call) const override {
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      const DeviceScope scope(device);
      call(device);
    }
  }

  void synchronize() const override {
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) synchronize_device(device);
  }

  bool enabled() const override { return true; }
  // Named ranges are for GPU vendors' tools.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
};

[[maybe_unused]] const bool stubs_registered = [] {
  static auto* events = new ProfilerEvents;
  torch::profiler::impl::registerPrivateUse1Methods(events);
  return true;
}();

}  // namespace
}  // namespace outboard
