// Copies of bytes by the driver, between the host, a device and other devices: their geometry, their
// order, and the life of the host memory they use.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <cstdint>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// ---- Geometry: two layouts of the same elements become a short list of pitched copies

// One run of equal dimensions that no pitched copy covers. Steps are in bytes.
struct CopyLoop {
  int64_t count;
  int64_t destination_step;
  int64_t source_step;
};

// `rows` rows of `row_bytes` contiguous bytes, repeated for every combination of the loops.
// Pitches are at least `row_bytes`.
struct CopyPlan {
  int64_t row_bytes = 0;
  int64_t rows = 1;
  int64_t destination_pitch = 0;
  int64_t source_pitch = 0;
  c10::SmallVector<CopyLoop, 4> loops;

  // One run of bytes on both sides.
  bool dense() const { return rows == 1 && loops.empty(); }
  // How often the pitched copy is repeated.
  int64_t repetitions() const;
  int64_t bytes() const { return row_bytes * rows * repetitions(); }
  // Whether a list of driver calls is a sensible way to do it, also for a driver that copies row
  // by row; otherwise moving the whole span through the host is faster.
  bool suits_driver() const;

  // Calls visit(destination_offset, source_offset), in bytes, for each repetition.
  template <class Visit>
  void for_each(Visit&& visit) const {
    c10::SmallVector<int64_t, 4> index(loops.size(), 0);
    int64_t destination = 0;
    int64_t source = 0;
    while (true) {
      visit(destination, source);
      size_t level = 0;
      for (; level < loops.size(); ++level) {
        const CopyLoop& loop = loops[level];
        destination += loop.destination_step;
        source += loop.source_step;
        if (++index[level] < loop.count) break;
        destination -= loop.count * loop.destination_step;
        source -= loop.count * loop.source_step;
        index[level] = 0;
      }
      if (level == loops.size()) return;
    }
  }
};

// Both sides have `sizes`, strides in elements of `itemsize` bytes, and at least one element. A
// source stride may be 0 (expanded).
CopyPlan plan_copy(c10::IntArrayRef sizes, c10::IntArrayRef destination_strides,
                   c10::IntArrayRef source_strides, int64_t itemsize);

// ---- Copies on a stream

constexpr c10::DeviceIndex kHost = -1;

// One end of a transfer: an address of a device, or a pointer of the host.
struct Place {
  c10::DeviceIndex device;
  uint64_t address;

  static Place on_host(const void* pointer) { return {kHost, reinterpret_cast<uint64_t>(pointer)}; }
};

// Enqueues `plan` on `stream`, which belongs to one of the devices; returns without waiting. Host
// memory has to stay valid until the stream has passed the copy: see HostMemoryInUse and
// keep_pinned_until_copied.
void enqueue_copy(StreamState& stream, Place destination, Place source, const CopyPlan& plan);

// The same for one run of bytes.
void enqueue_copy(StreamState& stream, Place destination, Place source, int64_t bytes);

// Whether copies from and to this host storage may outlive the call that started them: it is pinned
// memory, and its block is kept from reuse until `stream` has passed what was enqueued so far.
bool keep_pinned_until_copied(const c10::Storage& host, StreamState& stream);

// Keeps host memory alive until `stream` is known to have passed the copies that use it. If an
// exception leaves the scope before `wait`, the destructor waits; where even that fails, the memory
// is given up rather than freed under a copy.
class HostMemoryInUse {
 public:
  // `replayable`: the copies are right, too, when a graph that captures the stream repeats them
  // later. Others are refused there.
  HostMemoryInUse(StreamState& stream, const at::Tensor& host, bool replayable = false)
      : stream_(stream), host_(host) {
    if (!replayable) check_not_capturing(stream);
  }
  ~HostMemoryInUse();
  HostMemoryInUse(const HostMemoryInUse&) = delete;
  HostMemoryInUse& operator=(const HostMemoryInUse&) = delete;

  // Waits for the stream and raises failures of the work on it, deferred ones too.
  void wait();
  // The memory is kept by other means.
  void release() noexcept { waited_ = true; }

 private:
  StreamState& stream_;
  const at::Tensor host_;
  bool waited_ = false;
};

// A copy between two devices runs on the source's current stream. It starts when the destination's
// current stream has done what was enqueued before, and later work on the destination's current
// stream waits for it: to both streams it looks like a copy of their own. Construct, enqueue on the
// source's stream, finish.
class PeerOrder {
 public:
  PeerOrder(StreamState& source, StreamState& destination);
  void finish();

 private:
  StreamState& source_;
  StreamState& destination_;
};

}  // namespace outboard
