// Sparse tensors on the device: dense members on the device, operators by the CPU fallback.
#pragma once

#include <ATen/core/Tensor.h>

namespace outboard {

// A COO tensor of members on the device, or on the CPU. `indices` is (sparse_dim, nnz) of int64,
// `values` is (nnz, dense sizes...).
//
// These two take members as they are, also where torch.sparse.check_sparse_tensor_invariants is on:
// indices may be memory that is still to be filled in.
at::Tensor make_sparse_coo(const at::Tensor& indices, const at::Tensor& values, int64_t sparse_dim,
                           int64_t dense_dim, at::IntArrayRef size, bool coalesced);

// A CSR, CSC, BSR or BSC tensor of members on the device, or on the CPU.
at::Tensor make_sparse_compressed(const at::Tensor& compressed_indices,
                                  const at::Tensor& plain_indices, const at::Tensor& values,
                                  at::IntArrayRef size, at::Layout layout);

}  // namespace outboard
