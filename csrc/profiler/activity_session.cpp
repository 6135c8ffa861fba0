#ifdef USE_KINETO

#include "profiler/activity_session.h"

#include <c10/util/Exception.h>
#include <libkineto.h>
#include <output_base.h>

#include <ctime>
#include <utility>
#include <vector>

#include "profiler/trace_lanes.h"
#include "profiler/trace_writer.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
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
  if (!driver_initialized() || in_bad_fork() || driver_finalized()) return false;
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (!shares_host_memory(device)) continue;
    if (caching_allocator()->getDeviceStats(device).allocation[0].allocated > 0) return true;
  }
  return false;
}

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

}  // namespace

std::unique_ptr<libkineto::IActivityProfilerSession> make_activity_session(
    const std::set<ActivityType>& wanted) {
  return std::make_unique<ActivitySession>(wanted);
}

}  // namespace outboard

#endif
