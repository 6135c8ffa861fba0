// Scopes around driver calls. Without a recording they cost a load.
#pragma once

#include <string>

#include "runtime/recording/recording.h"
#include "runtime/streams/stream.h"

namespace outboard {

// A call in which the host waits or prepares, from construction to destruction.
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

// A call that gives work to a stream: construct, describe, call, say that it was enqueued. What was
// not is not recorded. Never throws for want of a time: a profiler must not make a program fail.
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

  // Whether anybody wants to know; only then the rest may be called.
  explicit operator bool() const noexcept { return work_ != nullptr; }
  // Names the kernel, and gives the launch the events if it records them itself.
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

}  // namespace outboard
