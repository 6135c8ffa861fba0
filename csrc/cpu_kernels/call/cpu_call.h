// One call of a host kernel on device tensors: CPU tensors over the same memory where host and
// device share it, copies where they do not, and everything brought back afterwards.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "cpu_kernels/call/address_index.h"
#include "dispatch/router.h"
#include "runtime/driver/device.h"
#include "runtime/export.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/streams/stream.h"
#include "tensors/host_view.h"

namespace outboard {

// Use: construct; map every tensor argument; run the CPU kernel; turn results with `result`; then
// `finish`. One storage on the device becomes one CPU storage, so aliasing among arguments holds.
// If an exception leaves before `finish`, nothing is written back (where memory is shared, what the
// kernel wrote stays written, as on CPU).
//
//   CpuCall call(self.device().index());
//   at::Tensor host = call.map(self, Access::kWrite);
//   run(host);
//   call.finish();
class OUTBOARD_API CpuCall {
 public:
  // Synchronizes the current stream of `device`, and lets CPU allocations of this thread come from
  // the device's cache while the call lives (shared memory only). The call keeps the device tensors
  // it maps: the caller's may go.
  explicit CpuCall(c10::DeviceIndex device);
  ~CpuCall();
  CpuCall(const CpuCall&) = delete;
  CpuCall& operator=(const CpuCall&) = delete;

  // kHost or kCopied.
  Placement placement() const noexcept { return placement_; }

  // The CPU tensor standing for `tensor`; undefined tensors and tensors of other devices come back
  // as they are. Conj and neg bits are kept.
  at::Tensor map(const at::Tensor& tensor, Access access);

  // Lets `finish` bring to `device` what a kernel did to `host`, which is from
  // `host_tensor(device)` or from `map`.
  void written(const at::Tensor& device, const at::Tensor& host);

  // The device tensor standing for what a CPU kernel returned: an argument itself (the same
  // TensorImpl), a view of an argument's storage, or new memory, adopted or copied. Undefined
  // tensors come back as they are.
  at::Tensor result(at::Tensor host);

  // Brings sizes, strides, offsets, bits and resized storages of written arguments back, and
  // copies their content where memory is not shared.
  void finish();

  // Bytes moved between host and device so far.
  uint64_t copied_bytes() const noexcept { return copied_bytes_; }

 private:
  // A device storage and the CPU storage that stands for it.
  struct StorageView {
    c10::Storage device;
    c10::Storage host;
    const void* mapped_data;  // of `host` when it was made: a kernel that resizes replaces it
    size_t mapped_bytes;
    // Copies only: the bytes that were brought to the host.
    size_t read_begin = 0, read_end = 0;
    bool resized = false;
  };
  struct TensorView {
    at::Tensor device;
    at::Tensor host;
    Access access;
  };
  // New storages that CPU kernels made and the device storages that hold them now.
  struct Adopted {
    c10::Storage host;
    c10::Storage device;
  };

  static const void* device_storage_of(const StorageView& view) {
    return view.device.unsafeGetStorageImpl();
  }
  static const void* host_storage_of(const StorageView& view) {
    return view.host.unsafeGetStorageImpl();
  }
  static const void* device_tensor_of(const TensorView& view) {
    return view.device.unsafeGetTensorImpl();
  }
  static const void* host_tensor_of(const TensorView& view) {
    return view.host.unsafeGetTensorImpl();
  }
  static const void* adopted_storage_of(const Adopted& adopted) {
    return adopted.host.unsafeGetStorageImpl();
  }

  at::Tensor map_sparse(const at::Tensor& tensor, Access access);
  at::Tensor sparse_result(const at::Tensor& host);
  at::Tensor map_nested(const at::Tensor& tensor, Access access);
  at::Tensor map_quantized(const at::Tensor& tensor, Access access);
  at::Tensor other_result(const at::Tensor& host);
  void finish_sparse();
  StorageView* find_storage(const c10::Storage& storage);
  StorageView& storage_view(const c10::Storage& storage, Access access);
  void will_write(StorageView& view);
  void bring_to_host(StorageView& view, size_t begin, size_t end);
  c10::Storage device_storage(const at::Tensor& host);
  c10::DataPtr adopt(const c10::Storage& host);
  c10::DataPtr copy_to_new_memory(const c10::Storage& host);
  void return_resized_storage(StorageView& view);
  void copy_back();

  c10::DeviceIndex device_;
  Placement placement_;
  bool copies_pending_ = false;
  StreamState& stream_;
  CpuKernelMemory memory_;
  uint64_t copied_bytes_ = 0;
  // Given back after what refers to them, so that only what the kernel kept still does, and before
  // the device storages they point to: the destructor sees to both.
  c10::SmallVector<HostView, 4> views_;
  c10::SmallVector<StorageView, 4> storages_;
  c10::SmallVector<TensorView, 6> tensors_;
  c10::SmallVector<Adopted, 1> adopted_;
  AddressIndex<device_storage_of> by_device_storage_;
  AddressIndex<host_storage_of> by_host_storage_;
  AddressIndex<device_tensor_of> by_device_tensor_;
  AddressIndex<host_tensor_of> by_host_tensor_;
  AddressIndex<adopted_storage_of> by_adopted_storage_;
  // And nested ones: those that are made of other tensors.
  std::vector<TensorView> sparse_tensors_;
};

}  // namespace outboard
