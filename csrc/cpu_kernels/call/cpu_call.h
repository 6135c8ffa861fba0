// One call of a host kernel on device tensors: CPU tensors over the same memory where host and
// device share it, copies where they do not, and results brought back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

#include <cstddef>
#include <vector>

#include "dispatch/placement.h"
#include "runtime/driver/device.h"
#include "runtime/export.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/streams/stream.h"
#include "tensors/host_view.h"

namespace outboard {

inline const void* identity_of(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }
inline const void* identity_of(const c10::Storage& storage) {
  return storage.unsafeGetStorageImpl();
}

// Finds the first element whose `member`, a tensor or storage, has an address, in a list that only
// grows. Short lists are scanned; lists of tensors have thousands of elements.
template <auto member>
class AddressIndex {
 public:
  // Null if there is none.
  template <class List>
  auto find(List& list, const void* address) -> decltype(&list[0]) {
    if (list.size() <= kScanned) {
      for (auto& element : list) {
        if (identity_of(element.*member) == address) return &element;
      }
      return nullptr;
    }
    for (; known_ < list.size(); ++known_)
      indices_.emplace(identity_of(list[known_].*member), known_);
    const auto found = indices_.find(address);
    return found != indices_.end() ? &list[found->second] : nullptr;
  }

 private:
  static constexpr size_t kScanned = 16;

  size_t known_ = 0;  // elements that are in `indices_`
  ska::flat_hash_map<const void*, size_t> indices_;
};

// Use: construct; map every tensor argument; run the CPU kernel; convert results by `result`; call
// `finish`. One device storage becomes one CPU storage, so arguments alias as before. If an
// exception leaves before `finish`, nothing is written back; in shared memory the kernel's writes
// stay, as on CPU.
//
//   CpuCall call(self.device().index());
//   at::Tensor host = call.map(self, Access::kWrite);
//   run(host);
//   call.finish();
class OUTBOARD_API CpuCall {
 public:
  // Synchronizes the current stream of `device`. During the call, CPU allocations of this thread
  // come from the device's cache (shared memory only). The call owns references to mapped tensors.
  explicit CpuCall(c10::DeviceIndex device);
  ~CpuCall();
  C10_DISABLE_COPY_AND_ASSIGN(CpuCall);

  // kHost or kCopied.
  Placement placement() const noexcept { return placement_; }

  // The CPU tensor for `tensor`, with its conj and neg bits. Undefined tensors and tensors of other
  // devices are returned unchanged.
  at::Tensor map(const at::Tensor& tensor, Access access);

  // Makes `finish` apply a kernel's changes of `host` to `device`. `host` is from
  // `host_tensor(device)` or from `map`.
  void written(const at::Tensor& device, const at::Tensor& host);

  // The device tensor for a result of a CPU kernel: an argument (the same TensorImpl), a view of an
  // argument's storage, or new memory, adopted or copied. Undefined tensors are returned unchanged.
  at::Tensor result(at::Tensor host);

  // Applies sizes, strides, offsets, bits and resized storages of written arguments, and copies
  // their content where memory is not shared.
  void finish();

  // Bytes moved between host and device so far.
  uint64_t copied_bytes() const noexcept { return copied_bytes_; }

 private:
  // A device storage and its CPU storage: of an argument, or new memory of a CPU kernel.
  struct StorageView {
    c10::Storage device;
    c10::Storage host;
    const void* mapped_data;  // data of `host` at first; a kernel that resizes replaces it
    size_t mapped_bytes;
    // Copies only: bytes that were copied to the host.
    size_t read_begin = 0, read_end = 0;
    bool resized = false;
  };
  struct TensorView {
    at::Tensor device;
    at::Tensor host;
    Access access;
  };

  at::Tensor map_sparse(const at::Tensor& tensor, Access access);
  at::Tensor sparse_result(const at::Tensor& host);
  at::Tensor map_nested(const at::Tensor& tensor, Access access);
  at::Tensor map_quantized(const at::Tensor& tensor, Access access);
  at::Tensor other_result(const at::Tensor& host);
  void finish_sparse();
  StorageView* find_storage(const c10::Storage& storage);
  StorageView& storage_view(const c10::Storage& storage, Access access);
  void will_write(StorageView& view);
  void copy_to_host(StorageView& view, size_t begin, size_t end);
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
  // The destructor releases views after the references to them below, so that remaining references
  // are the kernel's, and before the device storages that they point to.
  c10::SmallVector<HostView, 4> views_;
  c10::SmallVector<StorageView, 4> storages_;
  c10::SmallVector<TensorView, 6> tensors_;
  AddressIndex<&StorageView::device> by_device_storage_;
  AddressIndex<&StorageView::host> by_host_storage_;
  AddressIndex<&TensorView::device> by_device_tensor_;
  AddressIndex<&TensorView::host> by_host_tensor_;
  // Sparse and nested: tensors made of other tensors.
  std::vector<TensorView> sparse_tensors_;
};

// ---- Results of CPU kernels that become tensors of the device in place, over memory that both
// share: no new tensor, no new storage

// Converts a CPU tensor over memory that was allocated in a CpuCall to a tensor of `device`. False,
// with nothing changed, if the tensor or its storage has other owners, or if it has more than
// memory, dtype, sizes and strides. A Python object counts as one reference: the caller checks the
// owners of the object.
OUTBOARD_API bool turn_into_device(const at::Tensor& tensor, c10::DeviceIndex device);

}  // namespace outboard
