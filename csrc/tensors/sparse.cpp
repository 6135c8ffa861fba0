// Sparse tensors, and derivatives of their reduced products.
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "dispatch/registration.h"
#include "dispatch/router.h"
#include "runtime/driver/device.h"
#include "tensors/layouts.h"

// Of ATen/native/sparse/SparseStubs.h, which PyTorch does not install.
namespace at::native {
using flatten_indices_fn = Tensor (*)(const Tensor& indices, IntArrayRef size);
DECLARE_DISPATCH(flatten_indices_fn, flatten_indices_stub)
}  // namespace at::native

namespace outboard {
namespace {

// Indices (sparse dimensions, nnz) as positions in a dense tensor of `size`, which PyTorch compares
// to find whether a tensor is coalesced.
at::Tensor flatten_indices(const at::Tensor& indices, at::IntArrayRef size) {
  at::Tensor position = at::zeros({indices.size(1)}, indices.options().dtype(at::kLong));
  for (size_t dim = 0; dim < size.size(); ++dim) {
    position.mul_(size[dim]).add_(indices.select(0, static_cast<int64_t>(dim)));
  }
  return position;
}

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

// Numbers of the device's generator, as for dense tensors.
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
  // Members have no autograd history.
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

// ---- Derivatives of torch.sparse.mm(a, b, "amax") and "amin", for `a` compressed by rows
//
// PyTorch's CPU function records the selected entries only if its arguments need gradients, and
// those of a host call never do. Its derivative reads a column out of range where a row of `a` is
// empty, and adds to the memory at that address. So other operators compute both here.

namespace {

constexpr const char* kForward = "_sparse_mm_reduce_impl";
constexpr const char* kBackward = "_sparse_mm_reduce_impl_backward";

// Whether a call selects entries; `self` is (M, N) with nnz entries.
bool selects_entries(const at::Tensor& self, std::string_view reduce) {
  return (reduce == "amax" || reduce == "amin") && self.layout() == at::kSparseCsr &&
         self._nnz() != 0;
}

// Indices (M, K) of the entries that are the results for `other`, (N, K): the first of several, and
// nnz where a row of `self` is empty.
at::Tensor selected_entries(const at::Tensor& self, const at::Tensor& other,
                            std::string_view reduce) {
  const int64_t entries = self._nnz();
  const at::Tensor crow = self.crow_indices().to(at::kLong);
  const at::Tensor column = self.col_indices().to(at::kLong);
  const at::Tensor number = at::arange(entries, column.options());
  const at::Tensor row = at::searchsorted(crow, number, false, /*right=*/true).sub(1);
  const at::Tensor products = self.values().unsqueeze(1).mul(other.index_select(0, column));
  const at::Tensor rows = row.unsqueeze(1).expand_as(products);
  at::Tensor best = products.new_zeros({self.size(0), other.size(1)});
  best = best.scatter_reduce(0, rows, products, reduce, /*include_self=*/false).gather(0, rows);
  const at::Tensor is_best = products.eq(best).logical_or(products.isnan());
  const at::Tensor candidates =
      number.unsqueeze(1).expand_as(products).masked_fill(is_best.logical_not(), entries);
  return column.new_full({self.size(0), other.size(1)}, entries)
      .scatter_reduce(0, rows, candidates, "amin")
      .to(self.col_indices().scalar_type());
}

void forward(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto given = torch::jit::last(*stack, op.schema().arguments().size());
  const at::Tensor self = given[0].toTensor();
  const at::Tensor other = given[1].toTensor();
  const std::string reduce(given[2].toStringView());
  static Operator& entry = router_entry(std::string("aten::") + kForward);
  call_routed_boxed(entry, op, keys, stack);
  if (selects_entries(self, reduce) && at::GradMode::is_enabled() &&
      (self.requires_grad() || other.requires_grad())) {
    stack->back() = selected_entries(self, other, reduce);
  }
}

// Derivatives by the entries of `self` and by `other`. `grad_out`: (M, K); `selected`: of
// selected_entries.
std::tuple<at::Tensor, at::Tensor> derivatives(const at::Tensor& self, const at::Tensor& grad_out,
                                               const at::Tensor& other, const at::Tensor& selected,
                                               bool of_self, bool of_other) {
  const at::Tensor values = self.values();
  const int64_t entries = values.size(0);
  const at::Tensor entry = selected.clamp_max(entries - 1);
  const at::Tensor grad = grad_out.masked_fill(selected.eq(entries), 0);
  const at::Tensor flat = entry.flatten().to(at::kLong);
  const at::Tensor column = self.col_indices().to(at::kLong).index_select(0, flat).view_as(entry);
  at::Tensor grad_self, grad_other;
  if (of_self) {
    const at::Tensor each = grad.mul(other.gather(0, column));
    grad_self = at::_sparse_compressed_tensor_unsafe(
        self.crow_indices(), self.col_indices(),
        at::zeros_like(values).index_add(0, flat, each.flatten()), self.sizes(), self.options());
  }
  if (of_other) {
    const at::Tensor each = grad.mul(values.index_select(0, flat).view_as(entry));
    grad_other = at::zeros_like(other).scatter_add(0, column, each);
  }
  return {grad_self, grad_other};
}

void backward(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto given = torch::jit::last(*stack, op.schema().arguments().size());
  const at::Tensor self = given[0].toTensor();
  if (!selects_entries(self, given[3].toStringView())) {
    static Operator& entry = router_entry(std::string("aten::") + kBackward);
    call_routed_boxed(entry, op, keys, stack);
    return;
  }
  const auto mask = given[5].toBoolList();
  const at::Tensor& grad_out = given[1].toTensor();
  const at::Tensor& selected = given[4].toTensor();
  TORCH_CHECK(selected.sizes() == grad_out.sizes(), "the derivative of '", kForward,
              "' needs to know which entries were the results, a tensor of sizes ",
              grad_out.sizes(), ", and got ", selected.sizes(),
              "; call torch.sparse.mm with tensors that require gradients");
  auto [of_self, of_other] =
      derivatives(self, grad_out, given[2].toTensor(), selected, mask[0], mask[1]);
  torch::jit::drop(*stack, op.schema().arguments().size());
  torch::jit::push(*stack, std::move(of_self), std::move(of_other));
}

}  // namespace

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
  compressed->impl(kForward, torch::CppFunction::makeFromBoxedFunction<&forward>());
  compressed->impl(kBackward, torch::CppFunction::makeFromBoxedFunction<&backward>());
  route_operators_like(c10::DispatchKey::SparseCsrCPU, kCompressed, *compressed);
}

}  // namespace outboard

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(flatten_indices_stub, &outboard::flatten_indices)
}  // namespace at::native
