// Scopes that record driver calls. Without a recording they cost a load.
#pragma once

#include <string>

#include "runtime/recording/recording.h"
#include "runtime/streams/stream.h"

namespace outboard {

// A call in which the host waits or prepares: the lifetime of the object.
class RecordedHostCall {
 public:
  // `call` is a literal.
  explicit RecordedHostCall(const char* call) noexcept : call_(call) {
    if (__builtin_expect(recording(), 0)) begin_ = host_nanoseconds();
  }
  ~RecordedHostCall() {
    if (__builtin_expect(begin_ != 0, 0)) finish();
  }
  RecordedHostCall(const RecordedHostCall&) = delete;
  RecordedHostCall& operator=(const RecordedHostCall&) = delete;

 private:
  OUTBOARD_API void finish() noexcept;

  const char* const call_;
  uint64_t begin_ = 0;
};

// A call that enqueues work: construct, describe, call, enqueued(). A call without enqueued() is
// not recorded. Errors of events leave the times unknown: a profiler must not make a program fail.
class RecordedWork {
 public:
  // `call` is a literal.
  RecordedWork(StreamState& stream, ActivityKind kind, const char* call, const char* name = "",
               uint64_t bytes = 0) {
    if (__builtin_expect(recording(), 0)) begin(stream, kind, call, name, bytes);
  }
  ~RecordedWork() {
    if (__builtin_expect(work_ != nullptr, 0)) discard();
  }
  RecordedWork(const RecordedWork&) = delete;
  RecordedWork& operator=(const RecordedWork&) = delete;

  // Whether the call is recorded. Only then describe() may be called.
  explicit operator bool() const noexcept { return work_ != nullptr; }
  // Describes a launch, and passes the events to a driver that records events of launches.
  OUTBOARD_API void describe(const std::string& kernel, ob_launch& launch, uint64_t local_memory);
  void enqueued() noexcept {
    if (__builtin_expect(work_ != nullptr, 0)) finish();
  }

 private:
  struct Work;

  OUTBOARD_API void begin(StreamState& stream, ActivityKind kind, const char* call,
                          const char* name, uint64_t bytes);
  OUTBOARD_API void finish() noexcept;
  OUTBOARD_API void discard() noexcept;

  Work* work_ = nullptr;
};

// A copy on `stream`, under the names that trace tools know. Device -1 is the host.
class RecordedCopy : public RecordedWork {
 public:
  RecordedCopy(StreamState& stream, c10::DeviceIndex destination, c10::DeviceIndex source,
               uint64_t bytes)
      : RecordedWork(stream, ActivityKind::kCopy, call(destination, source),
                     name(destination, source), bytes) {}

 private:
  static const char* call(c10::DeviceIndex destination, c10::DeviceIndex source) noexcept {
    if (source < 0) return "copy_host_to_device";
    if (destination < 0) return "copy_device_to_host";
    return destination == source ? "copy_device_to_device" : "copy_peer";
  }
  static const char* name(c10::DeviceIndex destination, c10::DeviceIndex source) noexcept {
    if (source < 0) return "Memcpy HtoD";
    if (destination < 0) return "Memcpy DtoH";
    return destination == source ? "Memcpy DtoD" : "Memcpy PtoP";
  }
};

}  // namespace outboard
