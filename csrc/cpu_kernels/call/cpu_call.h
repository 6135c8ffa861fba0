// One call of a host kernel on device tensors: CPU tensors over the same memory where host and
// device share it, copies where they do not, and results brought back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

#include <cstddef>
#include <vector>

#include "dispatch/router.h"
#include "runtime/driver/device.h"
#include "runtime/export.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/streams/stream.h"
#include "tensors/host_view.h"

namespace outboard {

// Of a list that only grows, and whose elements keep their addresses. `address_of` gives that of an
// element; the first of several with the same one is found. A short list is scanned; lists of
// tensors have thousands.
template <auto address_of>
class AddressIndex {
 public:
  // Null if there is none.
  template <class List>
  auto find(List& list, const void* address) -> decltype(&list[0]) {
    if (list.size() <= kScanned) {
      for (auto& element : list) {
        if (address_of(element) == address) return &element;
      }
      return nullptr;
    }
    for (; known_ < list.size(); ++known_) places_.emplace(address_of(list[known_]), known_);
    const auto found = places_.find(address);
    return found != places_.end() ? &list[found->second] : nullptr;
  }

 private:
  static constexpr size_t kScanned = 16;

  size_t known_ = 0;  // elements that are in `places_`
  ska::flat_hash_map<const void*, size_t> places_;
};

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

// ---- Results of CPU kernels that become tensors of the device in place, over memory that both
// share: no new tensor, no new storage

// Makes a CPU tensor, over memory that was allocated in a CpuCall, one of `device`. False, with
// nothing changed, if another owner has a reference to the tensor or to its storage, or if it is
// more than memory, dtype, sizes and strides. An object in Python counts as one reference: whether
// the object has other owners is for the caller to know.
OUTBOARD_API bool turn_into_device(const at::Tensor& tensor, c10::DeviceIndex device);

// Whether memory that a CPU storage owns is the device's own.
bool is_device_memory(const c10::DataPtr& pointer) noexcept;

// The same memory and owner, as memory of `device`.
c10::DataPtr renamed(c10::DataPtr pointer, c10::Device device);

// Makes a CPU storage over such memory, without other references, the device's.
void give_storage_to(c10::DeviceIndex device, c10::StorageImpl& storage);

}  // namespace outboard
