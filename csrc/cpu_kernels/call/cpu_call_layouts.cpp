// Nested and quantized tensors in a host call: what they are over the memory that stands for
// theirs.
#include <ATen/NestedTensorImpl.h>
#include <ATen/core/Tensor.h>

#include "cpu_kernels/call/cpu_call.h"
#include "tensors/layouts/layouts.h"

namespace outboard {

at::Tensor CpuCall::map_nested(const at::Tensor& tensor, Access access) {
  const at::Tensor buffer = static_cast<at::native::NestedTensorImpl*>(tensor.unsafeGetTensorImpl())
                                ->get_unsafe_storage_as_tensor();
  for (TensorView& view : sparse_tensors_) {
    if (!view.device.is_same(tensor)) continue;
    if (access == Access::kWrite) map(buffer, access);
    return view.host;
  }
  at::Tensor host = nested_over(map(buffer, access).storage(),
                                c10::DispatchKeySet(c10::DispatchKey::NestedTensorCPU), tensor);
  // Its buffer is what is written back.
  sparse_tensors_.push_back({tensor, host, Access::kRead});
  return host;
}

at::Tensor CpuCall::map_quantized(const at::Tensor& tensor, Access access) {
  StorageView& storage = storage_view(tensor.storage(), access);
  if (placement_ == Placement::kCopied) bring_to_host(storage, 0, tensor.storage().nbytes());
  at::Tensor host =
      quantized_over(storage.host, c10::DispatchKeySet(c10::DispatchKey::QuantizedCPU), tensor);
  tensors_.push_back({tensor, host, access});
  return host;
}

at::Tensor CpuCall::other_result(const at::Tensor& host) {
  for (const TensorView& view : sparse_tensors_) {
    if (view.host.is_same(host)) return view.device;
  }
  c10::Storage storage;
  for (const StorageView& view : storages_) {
    if (view.host.is_alias_of(host.storage())) storage = view.device;
  }
  if (!storage) storage = device_storage(host);
  if (host.is_nested()) {
    return nested_over(std::move(storage),
                       c10::DispatchKeySet(c10::DispatchKey::NestedTensorPrivateUse1), host);
  }
  return quantized_over(std::move(storage),
                        c10::DispatchKeySet(c10::DispatchKey::QuantizedPrivateUse1), host);
}

}  // namespace outboard
