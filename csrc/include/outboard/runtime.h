// The runtime's C++ interface for vendors and kernel writers: where a tensor's memory is and on
// which queue work belongs. Link torch_outboard::torch_outboard (see torch_outboard.cmake_path()).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <outboard/driver.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#define OUTBOARD_PUBLIC __attribute__((visibility("default")))

namespace outboard {

// The driver in use, with defaults filled in. Raises if there is none.
OUTBOARD_PUBLIC const ob_driver& driver();

// Raises the exception that PyTorch expects for any status but OB_OK, naming `call`.
OUTBOARD_PUBLIC void throw_if_failed(ob_status status, const char* call);

// The queue of the calling thread's current stream. Work given to it must be announced with
// mark_submitted, or host code will not wait for it. device -1: the current device.
OUTBOARD_PUBLIC ob_queue current_queue(c10::DeviceIndex device = -1);
OUTBOARD_PUBLIC void mark_submitted(c10::DeviceIndex device = -1);

// Shows work in profiles that a kernel gives to the current queue by other ways than the kit's:
// from construction to submitted(), which announces it as mark_submitted does. Costs next to
// nothing where no profiler is active. `name`: for people; a copy is kept.
class OUTBOARD_PUBLIC ProfiledWork {
 public:
  explicit ProfiledWork(const char* name, c10::DeviceIndex device = -1);
  ~ProfiledWork();
  ProfiledWork(const ProfiledWork&) = delete;
  ProfiledWork& operator=(const ProfiledWork&) = delete;

  void submitted();

 private:
  struct Scope;

  c10::DeviceIndex device_;
  std::unique_ptr<Scope> scope_;  // null where no profiler is active
};

// Waits until work on the current stream is done, so that the host may touch its memory where host
// and device share it. Free when the stream is idle.
OUTBOARD_PUBLIC void wait_for_current_queue(c10::DeviceIndex device = -1);

// Makes the c10::BackendMeta that a vendor attaches to tensors travel through torch.save and
// torch.load: `save` adds entries, `load` reads them and attaches what they say. PyTorch has one
// slot for such functions, which the kit holds and shares; keys starting with "outboard:" are the
// kit's.
using BackendMetaFunction =
    std::function<void(const at::Tensor&, std::unordered_map<std::string, bool>&)>;
OUTBOARD_PUBLIC void add_metadata_serialization(BackendMetaFunction save, BackendMetaFunction load);

// Address of the tensor's first element. The tensor is on this backend's device and has storage.
// It is for the driver's functions and for kernels on the device: whether the host may dereference
// it differs from device to device, and where it may not, doing so ends the process.
OUTBOARD_PUBLIC ob_address address(const at::Tensor& tensor);

// Whether the host may touch the memory of this tensor.
OUTBOARD_PUBLIC bool host_can_touch(const at::Tensor& tensor);

// The same address as a pointer for the host, once work on the current stream of the tensor's
// device is done. Raises NotImplementedError on a device whose memory the host cannot touch; data
// of such a device comes to the host by the driver's copies alone.
OUTBOARD_PUBLIC void* host_pointer(const at::Tensor& tensor);

}  // namespace outboard
