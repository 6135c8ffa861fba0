#ifdef USE_KINETO

#include "profiler/trace_writer.h"

#include <GenericTraceActivity.h>
#include <ThreadUtil.h>
#include <c10/util/StringUtil.h>
#include <output_base.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "runtime/driver/device.h"
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

// ---- Lanes ----

// After all processes.
int64_t sort_index(c10::DeviceIndex device) { return libkineto::kExceedMaxPid + device; }

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

}  // namespace

std::vector<libkineto::DeviceInfo> device_infos(const Lanes& lanes) {
  std::vector<libkineto::DeviceInfo> infos;
  c10::DeviceIndex previous = -1;
  for (const auto& [device, stream] : lanes) {
    if (device == previous) continue;
    previous = device;
    infos.push_back(libkineto::DeviceInfo{device, sort_index(device), device_of(device).str(),
                                          device_properties(device).name});
  }
  return infos;
}

std::vector<libkineto::ResourceInfo> resource_infos(const Lanes& lanes) {
  std::vector<libkineto::ResourceInfo> infos;
  for (const auto& [device, stream] : lanes) {
    infos.push_back(resource_info<libkineto::ResourceInfo>(device, stream));
  }
  return infos;
}

// ---- TraceWriter ----

const ITraceActivity* TraceWriter::linked(uint64_t id) const {
  return id == 0 || id > kMostLinks ? nullptr : linked_(static_cast<int32_t>(id));
}

void TraceWriter::write(const Activity& activity) {
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

void TraceWriter::write_call(const Activity& activity, const ITraceActivity* operation,
                             bool has_work) {
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

void TraceWriter::write_work(const Activity& activity, const ITraceActivity* operation) {
  GenericTraceActivity work = make_activity(type_of(activity.kind), work_name(activity, operation));
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

void TraceWriter::extend_ranges(const Activity& activity) {
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

void TraceWriter::write_ranges() {
  if (!wanted_.contains(ActivityType::GPU_USER_ANNOTATION)) return;
  for (const auto& [range, extent] : ranges_) {
    // A range without an end in the profile has no name.
    const ITraceActivity* host = linked(range.id);
    if (host == nullptr) continue;
    GenericTraceActivity activity = make_activity(ActivityType::GPU_USER_ANNOTATION, host->name());
    activity.startTime = extent.begin;
    activity.endTime = extent.end;
    activity.device = range.device;
    activity.resource = static_cast<int32_t>(range.stream);
    activity.id = static_cast<int32_t>(range.id);
    activity.log(logger_);
  }
}

}  // namespace outboard

#endif
