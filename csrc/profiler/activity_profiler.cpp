// Device activities for torch.profiler. PyTorch without Kineto has none; its profiler gets device
// times by events around operators (profiler_stubs.cpp).
#ifdef USE_KINETO

#include <IActivityProfiler.h>
#include <libkineto.h>
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#define OUTBOARD_HAS_PROFILER_REGISTRY
#endif

#include <c10/util/Exception.h>
#include <output_base.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profiler/trace_writer.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/recording/recording.h"

namespace outboard {
namespace {

using libkineto::ActivityType;

// Offset from CLOCK_MONOTONIC to trace times, which are since 1970.
int64_t time_since_1970() {
  const auto read = [](clockid_t clock) {
    timespec now = {};
    clock_gettime(clock, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  };
  // The shortest interval between the two reads of the first clock gives the best offset.
  int64_t best = INT64_MAX;
  int64_t offset = 0;
  for (int i = 0; i < 10; ++i) {
    const int64_t before = read(CLOCK_MONOTONIC);
    const int64_t then = read(CLOCK_REALTIME);
    const int64_t lasted = read(CLOCK_MONOTONIC) - before;
    if (lasted >= best) continue;
    best = lasted;
    offset = then - before - lasted / 2;
  }
  return offset;
}

// True if tensors were made on a device with shared host memory.
bool host_kernels_may_have_run() {
  if (usable_driver() == nullptr) return false;
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (!shares_host_memory(device)) continue;
    if (caching_allocator()->getDeviceStats(device).allocation[0].allocated > 0) return true;
  }
  return false;
}

// One profile: device activities from start to stop.
class ActivitySession final : public libkineto::IActivityProfilerSession {
 public:
  explicit ActivitySession(const std::set<ActivityType>& wanted) : wanted_(wanted) {}

  void start() override {
    begin_correlation();
    recording_.start();
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    recording_.stop();
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() override { return errors_; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked,
                    int64_t start, int64_t) override {
    const std::vector<Activity> activities = recording_.take();
    TraceWriter writer(logger, wanted_, std::move(linked), time_since_1970());
    for (const Activity& activity : activities) writer.write(activity);
    writer.write_ranges();
    lanes_ = writer.lanes();
    // Kineto takes one device.
    const std::vector<libkineto::DeviceInfo> devices = device_infos(lanes_);
    for (size_t i = 1; i < devices.size(); ++i) logger.handleDeviceInfo(devices[i], start);
    if (writer.without_times() > 0) {
      errors_.push_back(c10::str("the driver could not tell the times of ", writer.without_times(),
                                 " calls that gave work to a device"));
    }
    if (lanes_.empty() && writer.without_times() == 0 && host_kernels_may_have_run()) {
      TORCH_WARN_ONCE(
          "the profile has no times of device '", c10::get_privateuse1_backend(),
          "': its operators ran by CPU kernels on memory that it shares with the host, and gave it "
          "no work. Their time is CPU time; torch_outboard.placement says how to have device "
          "kernels");
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    const std::vector<libkineto::DeviceInfo> devices = device_infos(lanes_);
    if (devices.empty()) return nullptr;
    return std::make_unique<libkineto::DeviceInfo>(devices.front());
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    return resource_infos(lanes_);
  }
  // Activities were copied into the trace.
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return nullptr; }

  void pushCorrelationId(uint64_t id) override { push_operation(id); }
  void popCorrelationId() override { pop_operation(); }
  void pushUserCorrelationId(uint64_t id) override { push_user_range(id); }
  void popUserCorrelationId() override { pop_user_range(); }

 private:
  const std::set<ActivityType> wanted_;
  Recording recording_;
  Lanes lanes_;
  std::vector<std::string> errors_;
};

class ActivityProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const auto* name = new std::string("torch_outboard");
    return *name;
  }

  const std::set<ActivityType>& availableActivities() const override {
    static const auto* types = new std::set<ActivityType>{
        ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::GPU_MEMSET,
        ActivityType::GPU_USER_ANNOTATION, ActivityType::PRIVATEUSE1_RUNTIME};
    return *types;
  }

  // A host-only profile records nothing, even if driver calls are wanted.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& wanted, const libkineto::Config&) override {
    const auto& ours = availableActivities();
    const bool device = std::any_of(wanted.begin(), wanted.end(), [&ours](ActivityType type) {
      return type != ActivityType::PRIVATEUSE1_RUNTIME && ours.contains(type);
    });
    if (!device) return nullptr;
    return std::make_unique<ActivitySession>(wanted);
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<ActivityType>& wanted,
      const libkineto::Config& config) override {
    return configure(wanted, config);
  }
};

[[maybe_unused]] const bool profiler_registered = [] {
  const auto make = [] { return std::make_unique<ActivityProfiler>(); };
#ifdef OUTBOARD_HAS_PROFILER_REGISTRY
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(make);
#else
  libkineto::api().registerProfilerFactory(make);
#endif
  return true;
}();

}  // namespace
}  // namespace outboard

#endif
