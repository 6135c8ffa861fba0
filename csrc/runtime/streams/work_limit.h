// How far the host may run ahead of a queue.
//
// A program that only enqueues would otherwise fill the host's memory with work, wait for minutes
// where it ends, and hear late of what failed. Half-way through the allowance a marker is put into
// the stream, and at its end the host waits for the marker of the half before: at most so much work
// is in flight, and the queue never runs dry.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "runtime/streams/stream.h"
#include "runtime/streams/stream_marker.h"

namespace outboard {

// Of one stream. Lives for ever, as streams do.
class WorkLimit {
 public:
  // Gives the stream its allowance: OUTBOARD_WORK_IN_FLIGHT driver calls (1024 by default), or none
  // with 0.
  static void apply_to(StreamState& stream);

 private:
  friend void limit_work_in_flight(StreamState& stream, uint64_t count) noexcept;

  std::mutex mutex_;
  std::optional<StreamMarker> marker_;
};

}  // namespace outboard
