// Derivatives of torch.sparse.mm(a, b, "amax") and "amin", for `a` compressed by rows.
//
// PyTorch's function for the CPU notes which entry was the result only where its own arguments need
// gradients, and those that a host call makes never do. Its derivative reads the column behind the
// last one where a row of `a` has no entry, and adds to the memory that this leads to. So both are
// done by other operators here.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "dispatch/router.h"
#include "tensors/layouts/layouts.h"

namespace outboard {
namespace {

constexpr const char* kForward = "_sparse_mm_reduce_impl";
constexpr const char* kBackward = "_sparse_mm_reduce_impl_backward";

// Whether the call is one of those; `self` is (M, N) with nnz entries.
bool chooses(const at::Tensor& self, std::string_view reduce) {
  return (reduce == "amax" || reduce == "amin") && self.layout() == at::kSparseCsr &&
         self._nnz() != 0;
}

// Which entry was the result, (M, K), of `other`, (N, K): the first of several, and nnz where a row
// of `self` has none.
at::Tensor chosen_entries(const at::Tensor& self, const at::Tensor& other,
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
  if (chooses(self, reduce) && at::GradMode::is_enabled() &&
      (self.requires_grad() || other.requires_grad())) {
    stack->back() = chosen_entries(self, other, reduce);
  }
}

struct Arguments {
  at::Tensor self;
  at::Tensor grad_out;  // (M, K)
  at::Tensor other;
  at::Tensor chosen;  // of the function above
};

// The derivatives by the entries of `self` and by `other`.
std::tuple<at::Tensor, at::Tensor> derivatives(const Arguments& given, bool of_self,
                                               bool of_other) {
  const at::Tensor values = given.self.values();
  const int64_t entries = values.size(0);
  const at::Tensor entry = given.chosen.clamp_max(entries - 1);
  const at::Tensor grad = given.grad_out.masked_fill(given.chosen.eq(entries), 0);
  const at::Tensor flat = entry.flatten().to(at::kLong);
  const at::Tensor column =
      given.self.col_indices().to(at::kLong).index_select(0, flat).view_as(entry);
  at::Tensor self;
  at::Tensor other;
  if (of_self) {
    const at::Tensor each = grad.mul(given.other.gather(0, column));
    self = at::_sparse_compressed_tensor_unsafe(
        given.self.crow_indices(), given.self.col_indices(),
        at::zeros_like(values).index_add(0, flat, each.flatten()), given.self.sizes(),
        given.self.options());
  }
  if (of_other) {
    const at::Tensor each = grad.mul(values.index_select(0, flat).view_as(entry));
    other = at::zeros_like(given.other).scatter_add(0, column, each);
  }
  return {self, other};
}

void backward(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto given = torch::jit::last(*stack, op.schema().arguments().size());
  const at::Tensor self = given[0].toTensor();
  if (!chooses(self, given[3].toStringView())) {
    static Operator& entry = router_entry(std::string("aten::") + kBackward);
    call_routed_boxed(entry, op, keys, stack);
    return;
  }
  const auto mask = given[5].toBoolList();
  const Arguments arguments{self, given[1].toTensor(), given[2].toTensor(), given[4].toTensor()};
  TORCH_CHECK(arguments.chosen.sizes() == arguments.grad_out.sizes(), "the derivative of '",
              kForward, "' needs to know which entries were the results, a tensor of sizes ",
              arguments.grad_out.sizes(), ", and got ", arguments.chosen.sizes(),
              "; call torch.sparse.mm with tensors that require gradients");
  auto [of_self, of_other] = derivatives(arguments, mask[0], mask[1]);
  torch::jit::drop(*stack, op.schema().arguments().size());
  torch::jit::push(*stack, std::move(of_self), std::move(of_other));
}

}  // namespace

void register_reduced_products(torch::Library& compressed) {
  compressed.impl(kForward, torch::CppFunction::makeFromBoxedFunction<&forward>());
  compressed.impl(kBackward, torch::CppFunction::makeFromBoxedFunction<&backward>());
}

}  // namespace outboard
