// Turns what was recorded into activities of Kineto.
//
// A driver call becomes an activity of its thread, and the work it gave to a stream one of the
// device. An arrow leads from the one to the other, and both are linked to the operator in which
// the call was made. A range of the user's becomes one activity on each stream that got work in it.
#pragma once

#ifdef USE_KINETO

#include <IActivityProfiler.h>

#include <map>
#include <set>
#include <tuple>

#include "profiler/trace_lanes.h"
#include "runtime/recording/activity.h"

namespace outboard {

class TraceWriter {
 public:
  // `offset`: what has to be added to times for those of the trace, in nanoseconds.
  TraceWriter(libkineto::ActivityLogger& logger, const std::set<libkineto::ActivityType>& wanted,
              libkineto::getLinkedActivityCallback linked, int64_t offset)
      : logger_(logger), wanted_(wanted), linked_(std::move(linked)), offset_(offset) {}

  void write(const Activity& activity);
  // After all activities.
  void write_ranges();

  // Where there was work.
  const Lanes& lanes() const { return lanes_; }
  // How many calls gave work whose times are unknown.
  int64_t without_times() const { return without_times_; }

 private:
  // On a stream of a device; times of the trace.
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
