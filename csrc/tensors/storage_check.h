// Tensors without storage: implementations of a vendor's that hide their memory from PyTorch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/macros/Macros.h>
#include <c10/util/Exception.h>

namespace outboard {

[[noreturn]] C10_NOINLINE inline void throw_without_storage(const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "a tensor without storage (", tensor.scalar_type(), " of shape ", tensor.sizes(),
      " on ", tensor.device(),
      ") came to an operator that needs its memory, which only its vendor "
      "knows; convert it first, as with .to_dense() or .cpu() where the vendor has kernels for "
      "those, or register a kernel for the operator");
}

// Raises NotImplementedError for a dense tensor that has no storage, and so no memory that the kit
// could know. Sparse tensors are no matter of this function: they have none either.
inline void check_has_storage(const at::Tensor& tensor) {
  if (C10_UNLIKELY(!tensor.unsafeGetTensorImpl()->has_storage())) throw_without_storage(tensor);
}

}  // namespace outboard
