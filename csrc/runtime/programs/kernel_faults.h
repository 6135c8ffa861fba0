// What kernels find wrong with the values they read, such as an index out of range.
//
// Launches are asynchronous. So a kernel writes into a word, and the next wait of the process that
// knows the kernel to be done raises it: a synchronization, a copy to the host, item(). The device
// goes on working, unlike CUDA's after a failed assertion.
#pragma once

#include <c10/util/ArrayRef.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// Words of kernels on a device. Lives for ever; a reset of the device moves it.
struct FaultPage {
  std::atomic<uint64_t> address{0};
};

// A word on a device and what it means, for all calls of one kernel. Lives for ever.
class OUTBOARD_API KernelFault {
 public:
  enum class Kind { kIndexError, kRuntimeError };

  // Makes the word, in device memory, holding 0. `message` is raised with the device and a hint.
  static KernelFault& make(c10::DeviceIndex device, Kind kind, std::string message);

  // Of an int, into which kernels write anything but 0.
  uint64_t address() const noexcept { return page_->address.load() + offset_; }

 private:
  friend void raise_faults();
  friend void release_fault_words(c10::DeviceIndex device) noexcept;

  KernelFault(c10::DeviceIndex device, Kind kind, std::string message);
  // Whether a kernel wrote; clears the word. `stream` is idle.
  bool take(StreamState& stream) const;
  [[noreturn]] void raise() const;

  const c10::DeviceIndex device_;
  const Kind kind_;
  const std::string message_;
  const FaultPage* page_ = nullptr;
  uint64_t offset_ = 0;
};

// To be called after the launch of kernels that may write into these words. While the stream
// captures a graph, that is kept for the graph.
OUTBOARD_API void expect_faults(StreamState& stream, c10::ArrayRef<KernelFault*> faults);
inline void expect_fault(StreamState& stream, KernelFault& fault) { expect_faults(stream, &fault); }
// What kernels captured from the stream may write into, each once: to be expected again after every
// replay. To be called once per capture, at its end, while the stream still captures.
OUTBOARD_API std::vector<KernelFault*> take_captured_faults(StreamState& stream);
// Raises what kernels wrote that are known to be done. Does not wait.
OUTBOARD_API void raise_faults();

// Around a reset of a device: gives the memory of its words back and forgets what was expected of
// them, then gives the words new memory. The second raises what the driver refuses.
void release_fault_words(c10::DeviceIndex device) noexcept;
void renew_fault_words(c10::DeviceIndex device);

// For places that have waited for a device, and may raise: failures of calls that could not raise
// by themselves, then faults of kernels.
OUTBOARD_API void raise_deferred();

// OUTBOARD_BLOCKING=1: every launch waits, so that faults are raised where they are made.
OUTBOARD_API bool launches_block() noexcept;

}  // namespace outboard
