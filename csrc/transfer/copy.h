// Copies between tensors, fills, and copies of bytes by the driver between the host and devices:
// geometry, order between streams, and lifetime of host memory.
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

// Writes `source`, broadcast and converted, into `destination`. At least one is on a device of this
// backend, the other may be on the CPU. Waits only where the host is involved; a copy from or to
// pinned memory with `non_blocking` does not.
OUTBOARD_API void copy_into(const at::Tensor& destination, const at::Tensor& source,
                            bool non_blocking = false);

// Copies within a device by a kernel, for conversions and for layouts with many runs of bytes.
// Enqueues the copy on the current stream of the tensors' device, or returns false to decline.
// `source` can be broadcast to the sizes of `destination`, which has at least one element.
using DeviceCopy = bool (*)(const at::Tensor& destination, const at::Tensor& source);
// Called by the kernel generator that makes such copies.
OUTBOARD_API void set_device_copy(DeviceCopy function);

// Fills `tensor`, of any strides, on the device's queue if the driver or a device kernel can: for
// device kernels, which do not wait as a CPU kernel does. Raises as on CPU if the dtype cannot hold
// the value.
OUTBOARD_API void fill_on_device(const at::Tensor& tensor, const at::Scalar& value);

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

  // One run of bytes in source and destination.
  bool dense() const { return rows == 1 && loops.empty(); }
  // Count of pitched copies.
  int64_t repetitions() const;
  int64_t bytes() const { return row_bytes * rows * repetitions(); }
  // Whether driver calls for the plan are fast, also for a driver that copies row by row; else
  // copying the whole span to the host is faster.
  bool suits_driver() const;
};

// Source and destination have `sizes`, strides in elements of `itemsize` bytes, and at least one
// element. A source stride may be 0 (expanded).
CopyPlan plan_copy(c10::IntArrayRef sizes, c10::IntArrayRef destination_strides,
                   c10::IntArrayRef source_strides, int64_t itemsize);

// ---- Copies on a stream

constexpr c10::DeviceIndex kHost = -1;

// One end of a transfer: an address of a device, or a pointer of the host.
struct Location {
  c10::DeviceIndex device;
  uint64_t address;

  static Location on_host(const void* pointer) {
    return {kHost, reinterpret_cast<uint64_t>(pointer)};
  }
};

// Enqueues `plan` on `stream`, a stream of one of the devices. Host memory must stay valid until
// the copy is complete: see HostMemoryInUse and keep_pinned_until_copied.
void enqueue_copy(StreamState& stream, Location destination, Location source, const CopyPlan& plan);

// The same for one run of bytes.
void enqueue_copy(StreamState& stream, Location destination, Location source, int64_t bytes);

// True if copies from and to this host storage may outlive the call that enqueued them: the memory
// is pinned, and its block is not reused before the work enqueued on `stream` so far is complete.
bool keep_pinned_until_copied(const c10::Storage& host, StreamState& stream);

// Holds host memory until the copies of `stream` that use it are complete. If an exception leaves
// the scope before `wait`, the destructor waits; if that fails, the memory leaks rather than being
// freed under a copy.
class HostMemoryInUse {
 public:
  // `replayable`: a graph that captures the stream may repeat the copies. Others raise there.
  HostMemoryInUse(StreamState& stream, const at::Tensor& host, bool replayable = false)
      : stream_(stream), host_(host) {
    if (!replayable) check_not_capturing(stream);
  }
  ~HostMemoryInUse();
  C10_DISABLE_COPY_AND_ASSIGN(HostMemoryInUse);

  // Waits for the stream and raises failures of the work on it, deferred ones too.
  void wait();
  // For memory that is held by other means.
  void release() noexcept { waited_ = true; }

 private:
  StreamState& stream_;
  const at::Tensor host_;
  bool waited_ = false;
};

// Enqueues on `waiting` a wait for the present work of `awaited`, of any device.
void enqueue_wait(const c10::Stream& waiting, const c10::Stream& awaited);

}  // namespace outboard
