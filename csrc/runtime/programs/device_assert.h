// Device-side asserts: errors that kernels find in the values they read, such as an index out of
// range.
//
// Launches are asynchronous, so a kernel sets an assert flag in device memory, and the next wait
// that knows the kernel to be done raises: a synchronization, a copy to the host, item(). The
// device stays usable, unlike CUDA's after a failed assert.
#pragma once

#include <c10/util/ArrayRef.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// Assert flags of a device in one allocation. Never destroyed; a reset of the device moves it.
struct AssertPage {
  std::atomic<uint64_t> address{0};
};

// The assert flag and message of all calls of one kernel on one device. Never destroyed.
class OUTBOARD_API DeviceAssert {
 public:
  enum class Kind { kIndexError, kRuntimeError };

  // One object per device, kind and message. The first call allocates the flag, cleared. A failure
  // raises `message`, with the device and a hint.
  static DeviceAssert& interned(c10::DeviceIndex device, Kind kind, std::string_view message);

  // Address of an int in device memory. Kernels fail the assert by writing any value but 0.
  uint64_t address() const noexcept { return page_->address.load() + offset_; }

 private:
  friend void raise_asserts();
  friend void release_assert_flags(c10::DeviceIndex device) noexcept;

  DeviceAssert(c10::DeviceIndex device, Kind kind, std::string message);
  // Whether the assert failed; clears the flag. `stream` is idle.
  bool take(StreamState& stream) const;
  [[noreturn]] void raise() const;

  const c10::DeviceIndex device_;
  const Kind kind_;
  const std::string message_;
  const AssertPage* page_ = nullptr;
  uint64_t offset_ = 0;
};

// Call after the launch of kernels that may fail these asserts. While the stream captures a graph,
// they are stored for the graph.
OUTBOARD_API void expect_asserts(StreamState& stream, c10::ArrayRef<DeviceAssert*> asserts);
inline void expect_assert(StreamState& stream, DeviceAssert& one) { expect_asserts(stream, &one); }
// The asserts of the kernels captured from the stream, each once; expect them after every replay.
// Call once per capture, at its end, while the stream still captures.
OUTBOARD_API std::vector<DeviceAssert*> take_captured_asserts(StreamState& stream);
// Raises the first failed assert of kernels that are known to be done. Does not wait.
OUTBOARD_API void raise_asserts();

// Before a reset of a device: frees the memory of its flags and forgets the expected asserts.
void release_assert_flags(c10::DeviceIndex device) noexcept;
// After it: allocates the flags again. Raises errors of the driver.
void renew_assert_flags(c10::DeviceIndex device);

// OUTBOARD_BLOCKING=1: every launch waits, so that a failed assert raises in the call itself.
OUTBOARD_API bool launches_block() noexcept;

}  // namespace outboard
