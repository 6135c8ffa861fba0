// Sparse, nested and quantized tensors in a host call.
#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "cpu_kernels/call/cpu_call.h"
#include "tensors/layouts.h"

namespace outboard {

// ---- Sparse: their members are dense tensors, which are mapped

namespace {

at::SparseTensorImpl& coo(const at::Tensor& tensor) {
  return *static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}
at::SparseCsrTensorImpl& compressed(const at::Tensor& tensor) {
  return *static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
}

std::vector<at::Tensor> members(const at::Tensor& tensor) {
  if (tensor.layout() == at::kSparse) return {coo(tensor).indices(), coo(tensor).values()};
  const at::SparseCsrTensorImpl& impl = compressed(tensor);
  return {impl.compressed_indices(), impl.plain_indices(), impl.values()};
}

}  // namespace

at::Tensor CpuCall::map_sparse(const at::Tensor& tensor, Access access) {
  for (TensorView& view : sparse_tensors_) {
    if (!view.device.is_same(tensor)) continue;
    if (access == Access::kWrite && view.access != access) {
      // An argument that is also the output: add(a, b, out=a).
      view.access = access;
      for (const at::Tensor& member : members(tensor)) map(member, access);
    }
    return view.host;
  }
  at::Tensor host;
  if (tensor.layout() == at::kSparse) {
    const at::SparseTensorImpl& impl = coo(tensor);
    host = make_sparse_coo(map(impl.indices(), access), map(impl.values(), access),
                           impl.sparse_dim(), impl.dense_dim(), tensor.sizes(), impl.coalesced());
  } else {
    const at::SparseCsrTensorImpl& impl = compressed(tensor);
    host = make_sparse_compressed(map(impl.compressed_indices(), access),
                                  map(impl.plain_indices(), access), map(impl.values(), access),
                                  tensor.sizes(), tensor.layout());
  }
  sparse_tensors_.push_back({tensor, host, access});
  return host;
}

at::Tensor CpuCall::sparse_result(const at::Tensor& host) {
  for (const TensorView& view : sparse_tensors_) {
    if (view.host.is_same(host)) return view.device;
  }
  if (host.layout() == at::kSparse) {
    const at::SparseTensorImpl& impl = coo(host);
    return make_sparse_coo(result(impl.indices()), result(impl.values()), impl.sparse_dim(),
                           impl.dense_dim(), host.sizes(), impl.coalesced());
  }
  const at::SparseCsrTensorImpl& impl = compressed(host);
  return make_sparse_compressed(result(impl.compressed_indices()), result(impl.plain_indices()),
                                result(impl.values()), host.sizes(), host.layout());
}

void CpuCall::finish_sparse() {
  for (const TensorView& view : sparse_tensors_) {
    if (view.access != Access::kWrite) continue;
    if (view.host.layout() == at::kSparse) {
      const at::SparseTensorImpl& from = coo(view.host);
      at::SparseTensorImpl& to = coo(view.device);
      to.raw_resize_(from.sparse_dim(), from.dense_dim(), view.host.sizes());
      to.set_indices_and_values_unsafe(result(from.indices()), result(from.values()));
      to.set_coalesced(from.coalesced());
    } else {
      const at::SparseCsrTensorImpl& from = compressed(view.host);
      compressed(view.device)
          .set_member_tensors(result(from.compressed_indices()), result(from.plain_indices()),
                              result(from.values()), view.host.sizes());
    }
  }
}

// ---- Nested and quantized: the same over the mapped memory

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
  // Its buffer is written back.
  sparse_tensors_.push_back({tensor, host, Access::kRead});
  return host;
}

at::Tensor CpuCall::map_quantized(const at::Tensor& tensor, Access access) {
  StorageView& storage = storage_view(tensor.storage(), access);
  if (placement_ == Placement::kCopied) copy_to_host(storage, 0, tensor.storage().nbytes());
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
