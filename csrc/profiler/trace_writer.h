// Converts recorded activities to activities of Kineto.
//
// A driver call becomes an activity of its thread, and its work on a stream an activity of the
// device. An arrow connects them, and both are linked to the calling operator. A user range becomes
// one activity on each stream with work in it.
#pragma once

#ifdef USE_KINETO

#include <IActivityProfiler.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/recording/recording.h"

namespace outboard {

// The lanes of a trace: a group per device with a lane per stream.
using Lanes = std::set<std::pair<c10::DeviceIndex, c10::StreamId>>;

// Names and order of the devices and streams of these lanes.
std::vector<libkineto::DeviceInfo> device_infos(const Lanes& lanes);
std::vector<libkineto::ResourceInfo> resource_infos(const Lanes& lanes);

class TraceWriter {
 public:
  // `offset`: from recorded times to trace times, in nanoseconds.
  TraceWriter(libkineto::ActivityLogger& logger, const std::set<libkineto::ActivityType>& wanted,
              libkineto::getLinkedActivityCallback linked, int64_t offset)
      : logger_(logger), wanted_(wanted), linked_(std::move(linked)), offset_(offset) {}

  void write(const Activity& activity);
  // Call after all activities.
  void write_ranges();

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

  void write_call(const Activity& activity, const libkineto::ITraceActivity* operation,
                  bool has_work);
  void write_work(const Activity& activity, const libkineto::ITraceActivity* operation);
  void extend_ranges(const Activity& activity);
  const libkineto::ITraceActivity* linked(uint64_t id) const;

  libkineto::ActivityLogger& logger_;
  const std::set<libkineto::ActivityType>& wanted_;
  const libkineto::getLinkedActivityCallback linked_;
  const int64_t offset_;
  uint32_t calls_ = 0;
  int64_t without_times_ = 0;
  Lanes lanes_;
  std::map<Range, Extent> ranges_;
};

}  // namespace outboard

#endif
