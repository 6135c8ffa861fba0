// Bodies of advanced indexing, `x[i, mask, :]`, and assignments, in C++ for speed.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "device_kernels/definitions/definition.h"

namespace outboard {
namespace {

using at::Tensor;
using Indices = std::vector<std::optional<Tensor>>;
using Sizes = std::vector<int64_t>;

// Index tensors of one shape, and the dimensions that they index.
struct Indexed {
  std::vector<Tensor> tensors;
  Sizes dims;

  const Tensor& operator[](size_t k) const { return tensors[k]; }
  // True if the index dimensions of a result stay where `dims` were; otherwise they are in front.
  bool adjacent() const {
    return dims.back() - dims.front() + 1 == static_cast<int64_t>(dims.size());
  }
};

bool is_mask(const Tensor& index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
}

// True if a mask has the sizes of the dimensions from `first` on.
bool fits(const Tensor& mask, const Tensor& self, int64_t first) {
  for (int64_t d = 0; d < mask.dim(); ++d) {
    if (first + d >= self.dim() || mask.size(d) != self.size(first + d)) return false;
  }
  return true;
}

// nullopt: the call is declined, and the CPU kernel raises.
std::optional<Indexed> indexed(const Tensor& self, const Indices& indices) {
  Indexed result;
  int64_t d = 0;
  for (const std::optional<Tensor>& given : indices) {
    if (!given.has_value() || !given->defined()) {
      ++d;
      continue;
    }
    const Tensor index = given->to(self.device());
    if (!is_mask(index)) {
      if (index.scalar_type() != at::kLong && index.scalar_type() != at::kInt) return std::nullopt;
      result.tensors.push_back(index);
      result.dims.push_back(d++);
      continue;
    }
    if (!fits(index, self, d)) return std::nullopt;
    if (index.scalar_type() == at::kByte) {
      TORCH_WARN(
          "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
          "instead.");
    }
    const Tensor positions = index.nonzero();
    for (int64_t j = 0; j < index.dim(); ++j) {
      result.tensors.push_back(positions.select(1, j));
      result.dims.push_back(d++);
    }
  }
  if (result.tensors.empty() || d > self.dim()) return std::nullopt;
  result.tensors = at::broadcast_tensors(result.tensors);
  const bool nowhere = std::any_of(result.dims.begin(), result.dims.end(),
                                   [&](int64_t dim) { return self.size(dim) == 0; });
  if (nowhere && result[0].numel() != 0) return std::nullopt;
  return result;
}

// Linear indices over the indexed dimensions; -1 if out of range.
Tensor flat_indices(const Tensor& self, const Indexed& index) {
  Tensor total;
  for (size_t k = 0; k < index.dims.size(); ++k) {
    const int64_t n = self.size(index.dims[k]);
    const Tensor wrapped = at::where(index[k].lt(0), index[k].add(n), index[k]);
    if (k == 0) {
      total = wrapped;
      continue;
    }
    const Tensor inside = at::logical_and(wrapped.ge(0), wrapped.lt(n));
    total = at::where(at::logical_and(inside, total.ge(0)), total.mul(n).add(wrapped), -1);
    if (k == 1) total = at::where(index[0].lt(self.size(index.dims[0])), total, -1);
  }
  return total.reshape(-1);
}

// `self` with the indexed dimensions first.
Tensor ordered_by(const Tensor& self, const Indexed& index) {
  Sizes order = index.dims;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (std::find(index.dims.begin(), index.dims.end(), d) == index.dims.end()) order.push_back(d);
  }
  return self.permute(order);
}

Sizes joined(at::IntArrayRef first, at::IntArrayRef second) {
  Sizes sizes = first.vec();
  sizes.insert(sizes.end(), second.begin(), second.end());
  return sizes;
}

// Moves the index dimensions from the front to their location in a result, or back (`to_front`).
Tensor moved(const Tensor& tensor, const Indexed& index, bool to_front) {
  if (!index.adjacent()) return tensor;
  Sizes here, there;
  for (int64_t k = 0; k < index[0].dim(); ++k) {
    here.push_back(k);
    there.push_back(k + index.dims.front());
  }
  return to_front ? tensor.movedim(there, here) : tensor.movedim(here, there);
}

// The mask, if it is the only index, expanded to the dimensions of `self`.
std::optional<Tensor> only_mask(const Tensor& self, const Indices& indices) {
  std::optional<Tensor> found;
  int64_t before = 0;
  for (const std::optional<Tensor>& index : indices) {
    if (!index.has_value() || !index->defined()) {
      if (!found.has_value()) ++before;
    } else if (found.has_value() || index->scalar_type() != at::kBool) {
      return std::nullopt;
    } else {
      found = index;
    }
  }
  if (!found.has_value() || !fits(*found, self, before)) return std::nullopt;
  Sizes sizes = joined(Sizes(before, 1), found->sizes());
  sizes.resize(self.dim(), 1);
  return found->to(self.device()).reshape(sizes);
}

// The result with the strides that TensorIterator gives it on CPU.
Tensor laid_out(const Tensor& result, const Tensor& self, const Indexed& index) {
  const bool row_major = std::all_of(index.tensors.begin(), index.tensors.end(),
                                     [](const Tensor& tensor) { return tensor.is_contiguous(); });
  if (row_major && self.is_contiguous()) return result.contiguous();
  const int64_t dims = index[0].dim();
  const int64_t at = index.adjacent() ? index.dims.front() : 0;
  Sizes strides;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (std::find(index.dims.begin(), index.dims.end(), d) == index.dims.end()) {
      strides.push_back(self.stride(d));
    }
  }
  const size_t others = strides.size();
  strides.insert(strides.begin() + at, static_cast<size_t>(dims), 0);
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false);
  config.add_owned_output(Tensor());
  config.declare_static_dtype_and_device(self.scalar_type(), self.device());
  // `self` has stride 0 along index dimensions, and index tensors along the others.
  config.add_owned_const_input(self.as_strided(result.sizes(), strides, self.storage_offset()));
  for (const Tensor& tensor : index.tensors) {
    Sizes strides_of_index(others, 0);
    strides_of_index.insert(strides_of_index.begin() + at, tensor.strides().begin(),
                            tensor.strides().end());
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
  const Tensor self = values[0].toTensor();
  const auto index = indexed(self, values[1].to<Indices>());
  if (!index.has_value()) return false;
  const Tensor ordered = ordered_by(self, *index);
  const auto count = static_cast<int64_t>(index->dims.size());
  const Sizes sizes = joined((*index)[0].sizes(), ordered.sizes().slice(count));
  const Tensor selected =
      ordered.flatten(0, count - 1).index_select(0, flat_indices(self, *index)).reshape(sizes);
  const Tensor result = moved(selected, *index, /*to_front=*/false);
  values.assign({laid_out(result, self, *index)});
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
    if (const auto mask = only_mask(self, indices)) {
      self.masked_fill_(*mask, values.reshape(at::IntArrayRef{}));
      return true;
    }
  }
  const auto index = indexed(self, indices);
  if (!index.has_value()) return false;
  const Tensor ordered = ordered_by(self, *index);
  const Tensor positions = flat_indices(self, *index);
  const auto count = static_cast<int64_t>(index->dims.size());
  const at::IntArrayRef rest = ordered.sizes().slice(count);
  const Tensor full =
      moved(positions.new_empty({1}).expand(joined((*index)[0].sizes(), rest)), *index, false);
  if (!at::is_expandable_to(values.sizes(), full.sizes())) return false;  // the CPU kernel raises
  if (positions.numel() == 0 || self.numel() == 0) return true;
  const Tensor what =
      moved(values.expand(full.sizes()), *index, true).reshape(joined({positions.numel()}, rest));
  const Tensor where = positions.reshape(joined({-1}, Sizes(rest.size(), 1))).expand(what.sizes());
  // Written in place if one stride covers the indexed dimensions.
  const Tensor into = ordered.flatten(0, count - 1);
  if (accumulate) {
    into.scatter_add_(0, where, what);
  } else {
    into.scatter_(0, where, what);
  }
  if (count > 1 && !ordered.is_contiguous()) ordered.copy_(into.reshape(ordered.sizes()));
  return true;
}

OUTBOARD_DECOMPOSITION(index, "self indices");
OUTBOARD_DECOMPOSITION(index_put, "self indices values accumulate");

}  // namespace
}  // namespace outboard
