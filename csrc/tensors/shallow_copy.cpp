// Whether a tensor may take over the data of one on another device: `parameter.data = other`, and
// with it `module.to(device)`, which keeps the parameters that optimizers and other modules hold.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace outboard {
namespace {

// PyTorch answers from a list of devices whose dense tensors are plain TensorImpls. Those of this
// device are plain, too, but the list cannot name it.
bool is_plain_dense(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet kDense(c10::DispatchKey::Dense);
  constexpr c10::DispatchKeySet kBackends(
      {c10::BackendComponent::CPUBit, c10::BackendComponent::CUDABit, c10::BackendComponent::HIPBit,
       c10::BackendComponent::XPUBit, c10::BackendComponent::MPSBit, c10::BackendComponent::HPUBit,
       c10::BackendComponent::MTIABit, c10::BackendComponent::PrivateUse1Bit});
  return keys.has_any(kDense) && keys.has_any(kBackends);
}

// Sparse tensors of two devices stay apart. The TensorImpl of COO tensors asks PyTorch's list by
// itself; that of compressed ones says yes, but would leave the members where they are.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  // A tensor without storage keeps what it is in members that a plain one does not have.
  if (impl->has_storage() != from.unsafeGetTensorImpl()->has_storage() &&
      impl->layout() != from.layout()) {
    return false;
  }
  if (impl->is_sparse_compressed() && self.device() != from.device()) return false;
  return impl->has_compatible_shallow_copy_type(from.key_set()) ||
         (is_plain_dense(impl->key_set()) && is_plain_dense(from.key_set()));
}

void answer(torch::Library& library) {
  library.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) { answer(library); }
// Here as well, because without it the question would reach the `__torch_dispatch__` of subclasses,
// which do not know it.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) { answer(library); }

}  // namespace
}  // namespace outboard
