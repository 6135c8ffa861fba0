// Streams: PyTorch's names for driver queues, one to one, and the current one per thread and
// device. A stream's id is its index in the device's table; 0 is the default stream. Streams are
// never destroyed.
#pragma once

#include <c10/core/Stream.h>
#include <outboard/driver.h>

#include <atomic>
#include <cstdint>

#include "runtime/driver/device.h"
#include "runtime/export.h"

namespace outboard {

struct StreamState;
struct WorkLimit;

// Part of StreamState::mark_submitted.
OUTBOARD_API void limit_work_in_flight(StreamState& stream, uint64_t count) noexcept;

// One queue and its timeline. `submitted` counts enqueued calls, `completed` how many of them are
// known to be done. Equal counts mean idle: the host may touch the stream's memory without asking
// the driver.
struct StreamState {
  c10::DeviceIndex device = 0;
  c10::StreamId id = 0;
  int32_t priority = 0;
  ob_queue queue = nullptr;
  bool external = false;
  // Calls are recorded into a graph instead of executed (graph.cpp).
  std::atomic<bool> capturing{false};
  std::atomic<uint64_t> submitted{0};
  std::atomic<uint64_t> completed{0};
  // The count of `submitted` at which the work in flight is checked next.
  std::atomic<uint64_t> next_check{UINT64_MAX};
  WorkLimit* limit = nullptr;

  c10::Stream stream() const { return c10::Stream(c10::Stream::UNSAFE, device_of(device), id); }
  bool idle() const noexcept {
    return !external &&
           submitted.load(std::memory_order_acquire) == completed.load(std::memory_order_acquire);
  }
  // Call after every driver call that enqueues work on `queue`. Waits now and then for older work:
  // the work in flight is limited.
  void mark_submitted() noexcept {
    const uint64_t count = submitted.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (__builtin_expect(count >= next_check.load(std::memory_order_relaxed), 0)) {
      limit_work_in_flight(*this, count);
    }
  }

  // A capturing stream is never idle, so waiting for it raises.
  void begin_capture() noexcept {
    capturing.store(true, std::memory_order_release);
    mark_submitted();
  }
  void end_capture() noexcept {
    completed.store(submitted.load(std::memory_order_acquire), std::memory_order_release);
    capturing.store(false, std::memory_order_release);
  }
};

// State of a stream of this backend. Raises for an id that does not exist.
OUTBOARD_API StreamState& stream_state(const c10::Stream& stream);
// State of the current stream of `device` in this thread; creates its queue at first use.
OUTBOARD_API StreamState& current_stream_state(c10::DeviceIndex device);

OUTBOARD_API c10::Stream default_stream(c10::DeviceIndex device);
OUTBOARD_API c10::Stream current_stream(c10::DeviceIndex device);
// Makes `stream` current for its device in this thread and returns the previous one.
OUTBOARD_API c10::Stream exchange_stream(const c10::Stream& stream);
// From the pool of a priority, clamped to the device's range, round robin.
OUTBOARD_API c10::Stream stream_from_pool(c10::DeviceIndex device, int32_t priority);
// A new stream in no pool, for work that waits for other processes.
OUTBOARD_API c10::Stream new_stream(c10::DeviceIndex device, int32_t priority);
// A stream over an external queue, which its owner keeps alive. The same queue gives the same
// stream.
OUTBOARD_API c10::Stream external_stream(c10::DeviceIndex device, ob_queue queue);

// Raises if `state` captures: captured work runs at replays alone.
[[noreturn]] OUTBOARD_API void throw_capturing(const StreamState& state);
inline void check_not_capturing(const StreamState& state) {
  if (__builtin_expect(state.capturing.load(std::memory_order_acquire), 0)) throw_capturing(state);
}

// Waits until the host may touch the stream's memory: two atomic loads and no driver call if the
// stream is idle. Does not raise deferred errors.
OUTBOARD_API void synchronize_stream(StreamState& state);
// Whether all work is done. Does not wait.
OUTBOARD_API bool query_stream(const c10::Stream& stream);
// Waits, then raises deferred errors.
OUTBOARD_API void synchronize_stream(const c10::Stream& stream);
OUTBOARD_API void synchronize_device(c10::DeviceIndex device);
// After a reset of the device: no work is under way on its streams.
void forget_work(c10::DeviceIndex device) noexcept;

}  // namespace outboard
