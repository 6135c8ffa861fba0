// Device activities for torch.profiler. PyTorch without Kineto has none; its profiler gets device
// times by events around operators (profiler_stubs.cpp).
#ifdef USE_KINETO

#include <GenericTraceActivity.h>
#include <IActivityProfiler.h>
#include <ThreadUtil.h>
#include <libkineto.h>
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#define OUTBOARD_HAS_PROFILER_REGISTRY
#endif

#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <output_base.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/recording/recording.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;
using libkineto::ITraceActivity;

// Kineto's ids of links to operators have 32 bits.
constexpr uint64_t kMostLinks = INT32_MAX;

ActivityType type_of(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::kHostCall:
      return ActivityType::PRIVATEUSE1_RUNTIME;
    case ActivityKind::kCopy:
      return ActivityType::GPU_MEMCPY;
    case ActivityKind::kFill:
      return ActivityType::GPU_MEMSET;
    // A wait is not work: this type is shown and does not count as device time.
    case ActivityKind::kWait:
      return ActivityType::GPU_USER_ANNOTATION;
    default:
      return ActivityType::CONCURRENT_KERNEL;
  }
}

// The span outlives all activities: they are copied into traces and live as long as they are
// referenced.
GenericTraceActivity make_activity(ActivityType type, const std::string& name) {
  static const auto* span = new libkineto::TraceSpan(0, 0, "device");
  return GenericTraceActivity(*span, type, name);
}

// Built-in kernels are named for their role within their operator.
std::string work_name(const Activity& activity, const ITraceActivity* operation) {
  if (activity.kind != ActivityKind::kKernel || operation == nullptr) return activity.name;
  return activity.name + " (" + operation->name() + ")";
}

std::string list(const std::array<uint64_t, 3>& values) {
  return c10::str("[", values[0], ", ", values[1], ", ", values[2], "]");
}

// Named like CUDA's activities, which trace tools read.
void add_shape(GenericTraceActivity& work, const Activity& activity) {
  std::array<uint64_t, 3> groups = {1, 1, 1};
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i] = activity.global[i] / std::max<uint64_t>(1, activity.local[i]);
  }
  work.addMetadataQuoted("kernel", activity.name);
  work.addMetadata("grid", list(groups));
  work.addMetadata("block", list(activity.local));
  work.addMetadata("shared memory", activity.local_memory);
}

void add_bytes(GenericTraceActivity& work, const Activity& activity) {
  work.addMetadata("bytes", activity.bytes);
  const uint64_t lasted = activity.end - activity.begin;
  if (lasted == 0) return;
  work.addMetadata("memory bandwidth (GB/s)",
                   static_cast<double>(activity.bytes) / static_cast<double>(lasted));
}

// ---- The lanes of a trace: a group per device with a lane per stream

using Lanes = std::set<std::pair<c10::DeviceIndex, c10::StreamId>>;

std::string stream_name(c10::DeviceIndex device, c10::StreamId id) {
  if (id == 0) return "stream 0 (default)";
  const StreamState& state = stream_state(c10::Stream(c10::Stream::UNSAFE, device_of(device), id));
  if (state.external) return c10::str("stream ", id, " (external)");
  if (state.priority != 0) return c10::str("stream ", id, " (priority ", state.priority, ")");
  return c10::str("stream ", id);
}

// Up to PyTorch 2.11 the struct has a constructor with another order of arguments.
template <class Info>
Info resource_info(c10::DeviceIndex device, c10::StreamId id) {
  const std::string name = stream_name(device, id);
  if constexpr (std::is_aggregate_v<Info>) {
    return Info{.id = id, .sortIndex = id, .deviceId = device, .name = name};
  } else {
    return Info(device, id, id, name);
  }
}

// Names and order of the devices of these lanes.
std::vector<libkineto::DeviceInfo> device_infos(const Lanes& lanes) {
  std::vector<libkineto::DeviceInfo> infos;
  c10::DeviceIndex previous = -1;
  for (const auto& [device, stream] : lanes) {
    if (device == previous) continue;
    previous = device;
    const int64_t after_processes = libkineto::kExceedMaxPid + device;
    infos.push_back(libkineto::DeviceInfo{device, after_processes, device_of(device).str(),
                                          device_properties(device).name});
  }
  return infos;
}

// ---- Activities of Kineto

// Converts recorded activities to activities of Kineto.
//
// A driver call becomes an activity of its thread, and its work on a stream an activity of the
// device. An arrow connects them, and both are linked to the calling operator. A user range becomes
// one activity on each stream with work in it.
class TraceWriter {
 public:
  // `offset`: from recorded times to trace times, in nanoseconds.
  TraceWriter(libkineto::ActivityLogger& logger, const std::set<libkineto::ActivityType>& wanted,
              libkineto::getLinkedActivityCallback linked, int64_t offset)
      : logger_(logger), wanted_(wanted), linked_(std::move(linked)), offset_(offset) {}

  void write(const Activity& activity) {
    ++calls_;
    const ITraceActivity* operation = linked(activity.correlation.operation);
    const bool shown = activity.has_times() && wanted_.contains(type_of(activity.kind));
    write_call(activity, operation, shown);
    if (activity.kind == ActivityKind::kHostCall) return;
    if (!activity.has_times()) {
      ++without_times_;
      return;
    }
    lanes_.emplace(activity.device, activity.stream);
    if (shown) write_work(activity, operation);
    if (activity.kind != ActivityKind::kWait) extend_ranges(activity);
  }
  // Call after all activities.
  void write_ranges() {
    if (!wanted_.contains(ActivityType::GPU_USER_ANNOTATION)) return;
    for (const auto& [range, extent] : ranges_) {
      // A range without an end in the profile has no name.
      const ITraceActivity* host = linked(range.id);
      if (host == nullptr) continue;
      GenericTraceActivity activity =
          make_activity(ActivityType::GPU_USER_ANNOTATION, host->name());
      activity.startTime = extent.begin;
      activity.endTime = extent.end;
      activity.device = range.device;
      activity.resource = static_cast<int32_t>(range.stream);
      activity.id = static_cast<int32_t>(range.id);
      activity.log(logger_);
    }
  }

  // Lanes with work.
  const Lanes& lanes() const { return lanes_; }
  // Number of calls whose work has unknown times.
  int64_t without_times() const { return without_times_; }

 private:
  // Range on a stream of a device; times of the trace.
  struct Range {
    uint64_t id;
    c10::DeviceIndex device;
    c10::StreamId stream;
    auto operator<=>(const Range&) const = default;
  };
  struct Extent {
    int64_t begin;
    int64_t end;
  };

  const ITraceActivity* linked(uint64_t id) const {
    return id == 0 || id > kMostLinks ? nullptr : linked_(static_cast<int32_t>(id));
  }

  void write_call(const Activity& activity, const ITraceActivity* operation, bool has_work) {
    if (!wanted_.contains(ActivityType::PRIVATEUSE1_RUNTIME)) return;
    GenericTraceActivity call = make_activity(ActivityType::PRIVATEUSE1_RUNTIME, activity.call);
    call.startTime = static_cast<int64_t>(activity.call_begin) + offset_;
    call.endTime = static_cast<int64_t>(activity.call_end) + offset_;
    call.device = libkineto::processId();
    call.resource = activity.thread;
    call.threadId = activity.thread;
    call.linked = operation;
    // PyTorch takes a call without operator for an operator with the kernels of that id.
    if (operation != nullptr) call.id = static_cast<int32_t>(calls_);
    call.addMetadata("correlation", calls_);
    if (has_work) {
      call.flow.id = calls_;
      call.flow.type = libkineto::kLinkAsyncCpuGpu;
      call.flow.start = 1;
    }
    call.log(logger_);
  }

  void write_work(const Activity& activity, const ITraceActivity* operation) {
    GenericTraceActivity work =
        make_activity(type_of(activity.kind), work_name(activity, operation));
    // Clocks may disagree: work never begins before its call.
    const uint64_t begin = std::max(activity.begin, activity.call_begin);
    work.startTime = static_cast<int64_t>(begin) + offset_;
    work.endTime = static_cast<int64_t>(std::max(begin, activity.end)) + offset_;
    work.device = activity.device;
    work.resource = static_cast<int32_t>(activity.stream);
    work.id = static_cast<int32_t>(calls_);
    if (activity.kind != ActivityKind::kWait) work.linked = operation;
    work.flow.id = calls_;
    work.flow.type = libkineto::kLinkAsyncCpuGpu;
    work.flow.start = 0;
    work.addMetadata("device", static_cast<int>(activity.device));
    work.addMetadata("stream", activity.stream);
    work.addMetadata("correlation", calls_);
    if (activity.kind == ActivityKind::kKernel) add_shape(work, activity);
    if (activity.bytes != 0) add_bytes(work, activity);
    work.log(logger_);
  }

  void extend_ranges(const Activity& activity) {
    const int64_t begin =
        static_cast<int64_t>(std::max(activity.begin, activity.call_begin)) + offset_;
    const int64_t end = std::max(begin, static_cast<int64_t>(activity.end) + offset_);
    for (const UserRange* range = activity.correlation.ranges.get(); range != nullptr;
         range = range->outer.get()) {
      const Range key{range->id, activity.device, activity.stream};
      const auto [entry, added] = ranges_.try_emplace(key, Extent{begin, end});
      if (added) continue;
      entry->second.begin = std::min(entry->second.begin, begin);
      entry->second.end = std::max(entry->second.end, end);
    }
  }

  libkineto::ActivityLogger& logger_;
  const std::set<libkineto::ActivityType>& wanted_;
  const libkineto::getLinkedActivityCallback linked_;
  const int64_t offset_;
  uint32_t calls_ = 0;
  int64_t without_times_ = 0;
  Lanes lanes_;
  std::map<Range, Extent> ranges_;
};

// ---- The profiler

// Offset from CLOCK_MONOTONIC to trace times, which are since 1970.
int64_t time_since_1970() {
  // The shortest interval between the two reads of the first clock gives the best offset.
  int64_t best = INT64_MAX;
  int64_t offset = 0;
  for (int i = 0; i < 10; ++i) {
    const int64_t before = c10::getTime(/*allow_monotonic=*/true);
    const int64_t then = c10::getTime();
    const int64_t lasted = c10::getTime(/*allow_monotonic=*/true) - before;
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
      errors_.push_back(c10::str("the driver did not measure the times of ", writer.without_times(),
                                 " calls that enqueued work"));
    }
    if (lanes_.empty() && writer.without_times() == 0 && host_kernels_may_have_run()) {
      TORCH_WARN_ONCE(
          "the profile has no times of device '", c10::get_privateuse1_backend(),
          "': all its operators ran as CPU kernels on memory that it shares with the host. Their "
          "time is CPU time; OUTBOARD_PLACEMENT=device selects device kernels");
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    const std::vector<libkineto::DeviceInfo> devices = device_infos(lanes_);
    if (devices.empty()) return nullptr;
    return std::make_unique<libkineto::DeviceInfo>(devices.front());
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> infos;
    for (const auto& [device, stream] : lanes_) {
      infos.push_back(resource_info<libkineto::ResourceInfo>(device, stream));
    }
    return infos;
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
