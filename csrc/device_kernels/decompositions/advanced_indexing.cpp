// Bodies of advanced indexing, `x[i, mask, :]`, and assignments, in C++ for speed.
#include <ATen/TensorIterator.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <vector>

#include "device_kernels/definitions/definition.h"

namespace outboard {
namespace {

using at::Tensor;
using Indices = c10::List<std::optional<Tensor>>;
using Sizes = std::vector<int64_t>;

// Index tensors of one shape, for adjacent dimensions of a tensor from `first` on.
struct Indexed {
  Tensor self;  // the indexed dimensions are in front if they were not adjacent
  std::vector<Tensor> tensors;
  int64_t first = 0;

  int64_t count() const { return static_cast<int64_t>(tensors.size()); }
  at::IntArrayRef before() const { return self.sizes().slice(0, first); }
  at::IntArrayRef after() const { return self.sizes().slice(first + count()); }
  // `self` with the indexed dimensions as one.
  Tensor flat() const { return self.flatten(first, first + count() - 1); }
  Sizes shape(at::IntArrayRef selected) const {
    Sizes sizes = before().vec();
    sizes.insert(sizes.end(), selected.begin(), selected.end());
    sizes.insert(sizes.end(), after().begin(), after().end());
    return sizes;
  }
};

// Raises IndexError for indices that do not fit.
Indexed indexed(const Tensor& self, const Indices& given) {
  at::native::checkIndexTensorTypes(given, /*allow_int=*/true);
  auto all = at::native::expandTensors(self, given, /*ensure_same_device=*/true);
  TORCH_CHECK_INDEX(static_cast<int64_t>(all.size()) <= self.dim(), "too many indices");
  try {
    all = at::expand_outplace(all);
  } catch (const c10::Error&) {
    TORCH_CHECK_INDEX(false, "indices do not broadcast");
  }
  all.resize(self.dim());
  Indexed result{self, {}};
  if (!at::native::hasContiguousSubspace(all)) {
    std::tie(result.self, all) = at::native::transposeToFront(self, all);
  }
  while (result.first < self.dim() && !all[result.first].defined()) ++result.first;
  for (Tensor& index : all) {
    if (index.defined()) result.tensors.push_back(std::move(index));
  }
  TORCH_CHECK_INDEX(!result.tensors.empty(), "no indices");
  const at::IntArrayRef sizes = result.self.sizes().slice(result.first, result.count());
  TORCH_CHECK_INDEX(result.tensors[0].numel() == 0 || c10::multiply_integers(sizes) != 0,
                    "indices of a dimension without elements");
  return result;
}

// False if a function raises IndexError: the call is declined, and the CPU kernel raises.
template <class Function>
bool fits(const Function& function) {
  try {
    function();
    return true;
  } catch (const c10::IndexError&) {
    return false;
  }
}

// Linear indices over the indexed dimensions; -1 if out of range.
Tensor flat_indices(const Indexed& index) {
  Tensor total;
  for (int64_t k = 0; k < index.count(); ++k) {
    const Tensor& given = index.tensors[k];
    const int64_t n = index.self.size(index.first + k);
    const Tensor wrapped = at::where(given.lt(0), given.add(n), given);
    if (k == 0) {
      total = wrapped;
      continue;
    }
    const Tensor inside = at::logical_and(wrapped.ge(0), wrapped.lt(n));
    total = at::where(at::logical_and(inside, total.ge(0)), total.mul(n).add(wrapped), -1);
    if (k == 1) total = at::where(index.tensors[0].lt(index.self.size(index.first)), total, -1);
  }
  return total.reshape(-1);
}

// The result with the strides that TensorIterator gives it on CPU.
Tensor laid_out(const Tensor& result, const Indexed& index) {
  const bool row_major = std::ranges::all_of(
      index.tensors, [](const Tensor& tensor) { return tensor.is_contiguous(); });
  if (row_major && index.self.is_contiguous()) return result;
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false);
  config.add_owned_output(Tensor());
  config.declare_static_dtype_and_device(result.scalar_type(), result.device());
  // `self` has stride 0 along index dimensions, and index tensors along the others.
  const int64_t dims = index.tensors[0].dim();
  Sizes strides(result.dim(), 0);
  for (int64_t d = 0; d < index.self.dim(); ++d) {
    if (d < index.first) strides[d] = index.self.stride(d);
    if (d >= index.first + index.count()) strides[d - index.count() + dims] = index.self.stride(d);
  }
  config.add_owned_const_input(
      index.self.as_strided(result.sizes(), strides, index.self.storage_offset()));
  for (const Tensor& tensor : index.tensors) {
    Sizes strides_of_index(result.dim(), 0);
    std::copy_n(tensor.strides().begin(), dims, strides_of_index.begin() + index.first);
    config.add_owned_const_input(
        tensor.as_strided(result.sizes(), strides_of_index, tensor.storage_offset()));
  }
  const at::TensorIterator iterator = config.build();
  const Tensor& like = iterator.tensor(0);
  if (like.strides() == result.strides()) return result;
  like.copy_(result);
  return like;
}

bool index(torch::jit::Stack& values) {
  Indexed index;
  if (!fits([&] { index = indexed(values[0].toTensor(), values[1].to<Indices>()); })) return false;
  const Tensor result = index.flat()
                            .index_select(index.first, flat_indices(index))
                            .reshape(index.shape(index.tensors[0].sizes()));
  values.assign({laid_out(result, index)});
  return true;
}

bool index_put(torch::jit::Stack& arguments) {
  const Tensor self = arguments[0].toTensor();
  const auto indices = arguments[1].to<Indices>();
  const Tensor& given = arguments[2].toTensor();
  if (given.device() != self.device() && given.dim() > 0) return false;
  const Tensor values = given.to(self.device());
  const bool accumulate = arguments[3].toBool();
  if (values.scalar_type() != self.scalar_type()) return false;
  arguments.assign({self});
  if (values.numel() == 1 && !accumulate) {
    static const auto* number = new Tensor(at::scalar_tensor(0));
    std::tuple<bool, Tensor> only;
    if (!fits([&] { only = at::native::canDispatchToMaskedFill(self, indices, *number); })) {
      return false;
    }
    const auto& [is_only, mask] = only;
    if (is_only && mask.scalar_type() == at::kBool) {
      self.masked_fill_(mask, values.reshape(at::IntArrayRef{}));
      return true;
    }
  }
  Indexed index;
  if (!fits([&] { index = indexed(self, indices); })) return false;
  const Sizes sizes = index.shape(index.tensors[0].sizes());
  if (!at::is_expandable_to(values.sizes(), sizes)) return false;  // the CPU kernel raises
  const Tensor positions = flat_indices(index);
  if (positions.numel() == 0 || self.numel() == 0) return true;
  const Tensor what = values.expand(sizes).reshape(index.shape({positions.numel()}));
  Sizes along(what.dim(), 1);
  along[index.first] = -1;
  const Tensor where = positions.reshape(along).expand(what.sizes());
  // Written in place if one stride covers the indexed dimensions.
  const Tensor into = index.flat();
  accumulate ? into.scatter_add_(index.first, where, what)
             : into.scatter_(index.first, where, what);
  if (!into.is_alias_of(self)) index.self.copy_(into.reshape(index.self.sizes()));
  return true;
}

OUTBOARD_DECOMPOSITION(index, "self indices");
OUTBOARD_DECOMPOSITION(index_put, "self indices values accumulate");

}  // namespace
}  // namespace outboard
