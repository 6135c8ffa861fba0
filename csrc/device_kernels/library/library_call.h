// Calls of the driver's library: tensor descriptions, and the two steps of a call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <outboard/driver.h>
#include <outboard/runtime.h>

#include "runtime/driver/driver_table.h"
#include "runtime/recording/recording.h"
#include "runtime/streams/stream.h"
#include "tensors/dense.h"

namespace outboard {

// True if the device computes on the dtype itself, not in a wider one as built-in kernels do for
// 16-bit floating point.
bool library_computes(c10::DeviceIndex device, at::ScalarType dtype);
// The accumulation dtype, and the OB_LIBRARY_* bits of PyTorch's settings.
uint32_t library_accumulation(at::ScalarType dtype);
uint32_t library_flags(at::ScalarType dtype);

// An operand at `data` with at most 8 dimensions, none of size 0.
ob_tensor library_tensor(const void* data, at::ScalarType dtype, at::IntArrayRef sizes,
                         at::IntArrayRef strides);
ob_tensor library_tensor(const at::Tensor& tensor, bool written = false);

// Parts of LibraryCall: checks the status of a query, and of a call, which enqueued work. False if
// declined; raises for failures.
bool took_query(ob_status status, const char* name);
bool took_call(ob_status status, const char* name, c10::DeviceIndex device);

// One call on the current stream. `Description` is ob_matrix_product or ob_convolution.
template <class Description>
class LibraryCall {
 public:
  using Function = ob_status (*ob_driver::*)(void* context, ob_queue queue,
                                             const Description* description);

  LibraryCall(Function function, const char* name, c10::DeviceIndex device)
      : function_(function), name_(name), device_(device) {}

  // Queries whether the library supports the call, and the workspace size.
  bool accepts(Description& description) {
    workspace_bytes_ = 0;
    description.workspace = 0;
    description.workspace_bytes = 0;
    description.workspace_query = &workspace_bytes_;
    return took_query(ask(description), name_);
  }
  // Executes the call accepted last. False if the library declines after all.
  bool submit(Description& description) {
    at::Tensor workspace;
    description.workspace_query = nullptr;
    if (workspace_bytes_ > 0) {
      workspace = empty_on(device_, {static_cast<int64_t>(workspace_bytes_)}, at::kByte);
      description.workspace = reinterpret_cast<ob_address>(workspace.mutable_data_ptr());
      description.workspace_bytes = workspace_bytes_;
    }
    RecordedWork record(current_stream_state(device_), ActivityKind::kLibraryCall, name_, name_);
    const bool took = took_call(ask(description), name_, device_);
    if (took) record.enqueued();
    return took;
  }
  bool operator()(Description& description) { return accepts(description) && submit(description); }

 private:
  ob_status ask(const Description& description) const {
    return ask_driver(function_, current_queue(device_), &description);
  }

  const Function function_;
  const char* const name_;
  const c10::DeviceIndex device_;
  uint64_t workspace_bytes_ = 0;
};

}  // namespace outboard
