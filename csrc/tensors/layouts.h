// Sparse, nested and quantized tensors of the device: memory on the device, most operators on the
// host. PyTorch has dispatch keys for each. (Jagged nested tensors are written in Python over dense
// ones and need no code.)
#pragma once

#include <ATen/core/Tensor.h>

namespace outboard {

// A nested tensor over the memory of `storage`, on the device or the host, with the component
// tensors and the dtype of `like`, a nested tensor: one buffer, with sizes, strides and offsets of
// the components on the CPU.
at::Tensor nested_over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like);
// A quantized tensor, likewise: an integer tensor with the quantizer of `like`, moved to its
// device.
at::Tensor quantized_over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like);

// Sparse tensors of dense members, on the device or the CPU. Both take members unchecked, even with
// torch.sparse.check_sparse_tensor_invariants: indices may be memory that is filled in later.

// COO: `indices` (sparse_dim, nnz) of int64, `values` (nnz, dense sizes...).
at::Tensor make_sparse_coo(const at::Tensor& indices, const at::Tensor& values, int64_t sparse_dim,
                           int64_t dense_dim, at::IntArrayRef size, bool coalesced);
// CSR, CSC, BSR or BSC.
at::Tensor make_sparse_compressed(const at::Tensor& compressed_indices,
                                  const at::Tensor& plain_indices, const at::Tensor& values,
                                  at::IntArrayRef size, at::Layout layout);

}  // namespace outboard
