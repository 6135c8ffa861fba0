#include "tensors/sparse.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <numeric>
#include <utility>
#include <vector>

#include "dispatch/registration.h"
#include "runtime/driver/device.h"
#include "tensors/layouts/layouts.h"

namespace outboard {
namespace {

at::Tensor empty_coo(int64_t sparse_dim, int64_t dense_dim, at::IntArrayRef size,
                     std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                     std::optional<at::Device> device, std::optional<bool>) {
  const auto index = device.has_value() && device->has_index() ? device->index() : current_device();
  const at::TensorOptions options = at::TensorOptions().device(device_of(index));
  std::vector<int64_t> values_size(size.begin() + sparse_dim, size.end());
  values_size.insert(values_size.begin(), 0);
  return make_sparse_coo(
      at::empty({sparse_dim, 0}, options.dtype(at::kLong)),
      at::empty(values_size, options.dtype(dtype.value_or(at::get_default_dtype_as_scalartype()))),
      sparse_dim, dense_dim, size, /*coalesced=*/true);
}

at::Tensor coo_from_members(int64_t sparse_dim, int64_t dense_dim, at::IntArrayRef size,
                            const at::Tensor& indices, const at::Tensor& values,
                            std::optional<at::ScalarType>, std::optional<at::Layout>,
                            std::optional<at::Device>, std::optional<bool>,
                            std::optional<bool> is_coalesced) {
  return make_sparse_coo(indices, values, sparse_dim, dense_dim, size,
                         is_coalesced.value_or(false));
}

// The numbers come from the device's generator, as those of dense tensors do.
at::Tensor& normal_of_compressed(at::Tensor& self, double mean, double std,
                                 std::optional<at::Generator> generator) {
  self.values().normal_(mean, std, std::move(generator));
  return self;
}

}  // namespace

at::Tensor make_sparse_coo(const at::Tensor& indices, const at::Tensor& values, int64_t sparse_dim,
                           int64_t dense_dim, at::IntArrayRef size, bool coalesced) {
  const c10::DispatchKey key =
      values.is_cpu() ? c10::DispatchKey::SparseCPU : c10::DispatchKey::SparsePrivateUse1;
  at::Tensor tensor =
      at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), values.dtype());
  auto* impl = static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
  impl->resize_(sparse_dim, dense_dim, size);
  // Members have no history of their own.
  impl->set_indices_and_values_unsafe(indices.detach(), values.detach());
  impl->set_coalesced(coalesced);
  return tensor;
}

at::Tensor make_sparse_compressed(const at::Tensor& compressed_indices,
                                  const at::Tensor& plain_indices, const at::Tensor& values,
                                  at::IntArrayRef size, at::Layout layout) {
  const c10::DispatchKey key =
      values.is_cpu() ? c10::DispatchKey::SparseCsrCPU : c10::DispatchKey::SparseCsrPrivateUse1;
  at::Tensor tensor = at::detail::make_tensor<at::SparseCsrTensorImpl>(
      c10::DispatchKeySet(key), values.device(), layout, values.dtype());
  static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl())
      ->set_member_tensors(compressed_indices.detach(), plain_indices.detach(), values.detach(),
                           size);
  return tensor;
}

void register_sparse_operators() {
  constexpr c10::DispatchKey kSparse = c10::DispatchKey::SparsePrivateUse1;
  auto* sparse = new torch::Library(torch::Library::IMPL, "aten", kSparse, __FILE__, __LINE__);
  sparse->impl("_sparse_coo_tensor_with_dims", TORCH_FN(empty_coo));
  sparse->impl("_sparse_coo_tensor_with_dims_and_tensors", TORCH_FN(coo_from_members));
  route_operators_like(c10::DispatchKey::SparseCPU, kSparse, *sparse);
  constexpr c10::DispatchKey kCompressed = c10::DispatchKey::SparseCsrPrivateUse1;
  auto* compressed =
      new torch::Library(torch::Library::IMPL, "aten", kCompressed, __FILE__, __LINE__);
  compressed->impl("normal_", TORCH_FN(normal_of_compressed));
  register_reduced_products(*compressed);
  route_operators_like(c10::DispatchKey::SparseCsrCPU, kCompressed, *compressed);
}

}  // namespace outboard
