// Copies of bytes by the driver, between the host, a device and other devices.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include "transfer/copy_plan.h"
#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

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
