// Sparse tensors on the device: dense members on the device, operators by the generic host way.
#pragma once

#include <ATen/core/Tensor.h>

namespace outboard {

// A COO tensor of the device from members on the device, taken as they are. `indices` is
// (sparse_dim, nnz) of int64, `values` is (nnz, dense sizes...).
at::Tensor make_sparse_coo(const at::Tensor& indices, const at::Tensor& values, int64_t sparse_dim,
                           int64_t dense_dim, at::IntArrayRef size, bool coalesced);

// Sends every operator with a kernel for sparse CPU tensors to the router, for sparse tensors of
// the device. Once, at load.
void register_sparse_operators();

}  // namespace outboard
