// One call of a host kernel on device tensors: CPU tensors over the same memory where host and
// device share it, copies where they do not, and everything brought back afterwards.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "aten/router.h"
#include "runtime/device.h"
#include "runtime/export.h"
#include "runtime/host_kernel_memory.h"
#include "runtime/stream.h"

namespace outboard {

// What a kernel does with an argument.
enum class Access : uint8_t {
  kRead = 0,
  kWrite = 1,  // may read and write, may resize
};

// Use: construct; map every tensor argument; run the CPU kernel; turn results with `result`; then
// `finish`. One storage on the device becomes one CPU storage, so aliasing among arguments holds.
// If an exception leaves before `finish`, nothing is written back (where memory is shared, what the
// kernel wrote stays written, as on CPU).
//
//   HostCall call(self.device().index());
//   at::Tensor host = call.map(self, Access::kWrite);
//   run(host);
//   call.finish();
class OUTBOARD_API HostCall {
 public:
  // Drains the current stream of `device`, and lets CPU allocations of this thread come from the
  // device's cache while the call lives (shared memory only).
  explicit HostCall(c10::DeviceIndex device);
  ~HostCall();
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  // kShared or kCopied.
  Way way() const noexcept { return way_; }

  // The CPU tensor standing for `tensor`; undefined tensors and tensors of other devices come back
  // as they are. Conj and neg bits are kept.
  at::Tensor map(const at::Tensor& tensor, Access access);

  // The device tensor standing for what a CPU kernel returned: an argument itself (the same
  // TensorImpl), a view of an argument's storage, or new memory, adopted or copied. Undefined
  // tensors come back as they are.
  at::Tensor result(const at::Tensor& host);

  // Brings sizes, strides, offsets, bits and resized storages of written arguments back, and
  // copies their content where memory is not shared.
  void finish();

  // Bytes moved between host and device so far.
  uint64_t copied_bytes() const noexcept { return copied_bytes_; }

 private:
  struct StorageView;
  struct TensorView;
  StorageView& storage_view(const at::Tensor& tensor, Access access);

  c10::DeviceIndex device_;
  Way way_;
  StreamState& stream_;
  HostKernelMemory memory_;
  uint64_t copied_bytes_ = 0;
  std::vector<StorageView> storages_;
  std::vector<TensorView> tensors_;
};

// A CPU tensor over the memory of `tensor`, for devices that share memory with the host; keeps the
// storage alive. No bookkeeping: for arguments that a kernel only reads or writes in place.
OUTBOARD_API at::Tensor alias_as_cpu(const at::Tensor& tensor);

}  // namespace outboard
