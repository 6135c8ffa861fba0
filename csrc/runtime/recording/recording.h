// Records calls of the driver while a profiler or tracer is active.
//
// One recording at a time has the work of all threads. Events tell when work ran. Events that have
// happened are read and destroyed now and then, so a long recording holds few.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <outboard/driver.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/export.h"
#include "runtime/streams/event.h"
#include "runtime/streams/stream.h"

namespace outboard {

// ---- Correlation: the operation and the user's ranges of a thread, by ids of a profiler

// A range of the user's, and the ranges around it.
struct UserRange {
  uint64_t id;
  std::shared_ptr<const UserRange> outer;
};

struct Correlation {
  uint64_t operation = 0;  // the innermost one; 0: none
  std::shared_ptr<const UserRange> ranges;
};

// Starts a profile: drops the operations and ranges of all threads. Every recorded call has those
// of its thread.
OUTBOARD_API void begin_correlation() noexcept;

// For the calling thread. A pop without a push does nothing: a profile may begin in an operation.
OUTBOARD_API void push_operation(uint64_t id);
OUTBOARD_API void pop_operation() noexcept;
OUTBOARD_API void push_user_range(uint64_t id);
OUTBOARD_API void pop_user_range() noexcept;

// ---- Activities: single driver calls

enum class ActivityKind : uint8_t {
  kHostCall,  // the host waits or prepares; nothing is enqueued
  kKernel,
  kLibraryCall,
  kCopy,
  kFill,
  kGraph,  // a replay
  kWait,   // of a queue for an event of another one
};

// Times are nanoseconds of the host's CLOCK_MONOTONIC.
struct Activity {
  ActivityKind kind = ActivityKind::kHostCall;
  const char* call = "";  // the driver's function; static
  int32_t thread = 0;     // the system's id of the caller
  uint64_t call_begin = 0;
  uint64_t call_end = 0;
  Correlation correlation;

  // The rest describes the enqueued work.
  std::string name;
  c10::DeviceIndex device = -1;
  c10::StreamId stream = 0;
  // When the work ran. A driver that records events of launches tells when a kernel began; else
  // `begin` is the end of earlier work on the queue. Both are 0 if unknown: for captured work, and
  // after errors of the driver.
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bytes = 0;  // of copies and fills
  // Work-items of kernels, in all and per work-group.
  std::array<uint64_t, 3> global = {};
  std::array<uint64_t, 3> local = {};
  uint64_t local_memory = 0;  // bytes per work-group

  bool has_times() const noexcept { return end != 0; }
};

// ---- Recordings

extern OUTBOARD_API std::atomic<bool> g_recording;
// Whether any recording runs. A load.
inline bool recording() noexcept { return g_recording.load(std::memory_order_relaxed); }

struct RecordedEntries;

// The activities from start() to stop(), or to the start of another recording. Used by one thread
// at a time.
class OUTBOARD_API Recording {
 public:
  Recording() = default;
  ~Recording() { stop(); }
  C10_DISABLE_COPY_AND_ASSIGN(Recording);

  // Drops activities that were not taken. Does nothing if it runs.
  void start();
  void stop() noexcept;
  // Waits for the work recorded since start() or the last take(), and returns it in the order in
  // which the calls returned. Times are unknown if the driver cannot be called any more. The
  // interpreter lock must not be held.
  std::vector<Activity> take();

 private:
  std::shared_ptr<RecordedEntries> entries_;
};

// ---- Scopes that record driver calls. Without a recording they cost a load.

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
  C10_DISABLE_COPY_AND_ASSIGN(RecordedHostCall);

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
  C10_DISABLE_COPY_AND_ASSIGN(RecordedWork);

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
