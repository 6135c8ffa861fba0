// A point in the work of a stream, for allocators: marking, asking and unmarking never throw.
#pragma once

#include <outboard/driver.h>

#include "runtime/streams/stream.h"

namespace outboard {

// Stands for all work given to `stream` so far. What the driver refuses is raised at the next
// synchronization; a point without an event has passed when the whole stream is idle.
class StreamMarker {
 public:
  explicit StreamMarker(StreamState& stream) noexcept;
  ~StreamMarker();
  StreamMarker(StreamMarker&& other) noexcept;
  StreamMarker& operator=(StreamMarker&& other) noexcept;
  StreamMarker(const StreamMarker&) = delete;
  StreamMarker& operator=(const StreamMarker&) = delete;

  // Does not wait.
  bool has_passed() const noexcept;
  // Whether the point has passed now: false where the driver must not be asked any more, and where
  // a limited wait was given up (wait.h).
  bool wait() const noexcept;

 private:
  void reset() noexcept;

  StreamState* stream_;
  ob_event event_ = nullptr;
};

}  // namespace outboard
