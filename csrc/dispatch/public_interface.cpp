// Definitions for the installed headers outboard/runtime.h and outboard/kernel.h.
#include <c10/util/Exception.h>
#include <outboard/kernel.h>
#include <outboard/runtime.h>

#include "dispatch/router.h"
#include "runtime/driver/driver_table.h"
#include "runtime/recording/recording.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

StreamState& current_state(c10::DeviceIndex device) {
  return current_stream_state(device >= 0 ? device : current_device());
}

}  // namespace

void throw_if_failed(ob_status status, const char* call) { check_status(status, call); }

ob_queue current_queue(c10::DeviceIndex device) { return current_state(device).queue; }

void mark_submitted(c10::DeviceIndex device) { current_state(device).mark_submitted(); }

struct ProfiledWork::Scope {
  explicit Scope(const char* name, c10::DeviceIndex device)
      : record(current_state(device), ActivityKind::kLibraryCall, "kernel", name) {}
  RecordedWork record;
};

ProfiledWork::ProfiledWork(const char* name, c10::DeviceIndex device) : device_(device) {
  if (C10_UNLIKELY(recording())) scope_ = std::make_unique<Scope>(name, device);
}

ProfiledWork::~ProfiledWork() = default;

void ProfiledWork::submitted() {
  mark_submitted(device_);
  if (scope_ != nullptr) scope_->record.enqueued();
}

void wait_for_current_queue(c10::DeviceIndex device) { synchronize_stream(current_state(device)); }

ob_address address(const at::Tensor& tensor) {
  TORCH_CHECK(
      tensor.defined() && tensor.is_privateuseone() && tensor.has_storage(),
      "the address of a tensor on ", tensor.defined() ? tensor.device().str() : "no device",
      " was asked for, and only dense tensors of this backend have one; move it with .to()");
  // Materializes a copy-on-write storage, since the kernel may write.
  return reinterpret_cast<ob_address>(tensor.mutable_data_ptr());
}

bool host_can_touch(const at::Tensor& tensor) {
  address(tensor);  // raises for tensors that have none
  return shares_host_memory(tensor.device().index());
}

void* host_pointer(const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      host_can_touch(tensor), "a kernel asked for a host pointer to memory of ", tensor.device(),
      ", which the host cannot touch; copy it with the driver's `copy_device_to_host`, or give the "
      "work to the device");
  wait_for_current_queue(tensor.device().index());
  return reinterpret_cast<void*>(address(tensor));
}

void register_vendor_kernel(const std::string& name, c10::KernelFunction kernel,
                            const KernelScope& scope, const std::string& origin) {
  RoutedKernel row;
  row.origin = origin;
  row.kernel = std::move(kernel);
  row.source = Source::kVendor;
  row.placement = Placement::kDevice;
  row.device = scope.device;
  if (scope.dtypes.size() != 0) {
    row.dtypes = 0;
    for (const c10::ScalarType dtype : scope.dtypes)
      row.dtypes |= uint64_t{1} << static_cast<int>(dtype);
  }
  add_kernel(name, std::move(row));
}

}  // namespace outboard
